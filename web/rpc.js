// Calls of the contract, as every caller makes them: Connect with JSON. The access token is kept for this tab alone.

const KEY = "reeve-token";

export class CallError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** 32 random bytes in base64 for URLs: the secret of a token. */
export function randomText() {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace("=", "");
}

/** Makes a call ("TaskService/Get"). `key` lets a change be repeated without a second effect. */
export async function call(method, request = {}, { signal, key, bearer = token() } = {}) {
  const headers = { "content-type": "application/json", "connect-protocol-version": "1", "connect-timeout-ms": "30000" };
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  if (key) headers["idempotency-key"] = key;
  let response, answer;
  try {
    response = await fetch(`/reeve.v1.${method}`, {
      method: "POST", headers, body: JSON.stringify(request), signal, cache: "no-store", credentials: "omit",
    });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new CallError("unreachable", response ? `the answer cannot be read: ${error.message}` : "the manager does not answer");
  }
  if (response.ok) return answer;
  throw new CallError(answer.code ?? "unknown", answer.message ?? `status ${response.status}`);
}
