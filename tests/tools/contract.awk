# Lists what programs of one version of the contract rely on: each field with its number, label and type, each value of
# an enum, each method. tests/e2e/data/contract is this list for the version that its last line names.
#
#	awk -f tests/tools/contract.awk proto/reeve/v1/*.proto | LC_ALL=C sort >tests/e2e/data/contract
/^enum |^message |^service / { block = $2; kind = $1 }
/^  enum |^  message / { exit failed = 1 } # the contract has no nested types
kind == "enum" && /^  [A-Z0-9_]+ = [0-9]+;/ {
	sub(";", "", $3)
	print $1 == "CONTRACT_CURRENT" ? "version " $3 : block " " $3 " " $1
}
kind == "message" && / = [0-9]+/ && !/^ *\/\// {
	number = $0
	sub(/^[^=]*= /, "", number)
	sub(/[^0-9].*/, "", number)
	declared = $0
	sub(/ = .*/, "", declared)
	count = split(declared, word, " ")
	print block " " number " " word[1] (count == 3 ? " " word[2] : "") " " word[count]
}
kind == "service" && /^  rpc / { split($0, part, /[ ()]+/); print block " " part[3] " " part[4] " " part[6] }
/^}/ { block = kind = "" }
END { if (failed) exit 1 }
