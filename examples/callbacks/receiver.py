#!/usr/bin/env python3
"""A receiver of callbacks: receiver.py PORT SECRET. It verifies the signature, refuses old calls, and handles each once."""
import base64, hashlib, hmac, http.server, json, sys, threading, time

port, secret = int(sys.argv[1]), sys.argv[2]
key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
seen = set()  # in production: a table, written in the same transaction as what the callback causes
one_at_a_time = threading.Lock()  # a call that takes long may come a second time before its end


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        message, moment = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        signed = f"{message}.{moment}.".encode() + body
        wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = self.headers.get("webhook-signature", "").split()
        good = any(hmac.compare_digest(wanted, one) for one in given) and abs(time.time() - int(moment)) < 300
        with one_at_a_time:
            if good and message not in seen:
                event = json.loads(body)
                if event["event"] == "batch_end":
                    batch = event["batch"]
                    print(f'{batch["name"]}: {batch["completed"]} completed, {batch["failed"]} failed', flush=True)
                seen.add(message)
        self.send_response(204 if good else 401)
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
