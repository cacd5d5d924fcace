/* What a running handler has reported: its progress, its remark and its last lines, numbered from 1. */
const MAX_LINES = 1000;
const MAX_BYTES = 65536;
const MAX_LINE_BYTES = 4096;
const MAX_REMARK_BYTES = 1000;

/* A monotonic time, in milliseconds, that is the same for all threads. */
const now = () => performance.timeOrigin + performance.now();

/* A text as managers take it: without NUL, cut to a number of bytes. */
export function clean(text, limit) {
  const bytes = Buffer.from(String(text).slice(0, limit).replaceAll("\0", "\ufffd"));
  let end = Math.min(bytes.length, limit);
  while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--; // no part of a character
  return bytes.toString("utf8", 0, end);
}

export class News {
  progress; // undefined: unchanged
  remark = "";
  lines = []; // { text, at }
  #bytes = 0;
  #next = 1; // the number of the next line

  report(percent, remark) {
    const number = Number(percent);
    if (!Number.isNaN(number)) this.progress = Math.min(Math.max(number, 0), 100);
    if (remark !== undefined) this.remark = clean(remark, MAX_REMARK_BYTES);
  }

  log(text) {
    for (const line of String(text).split("\n")) this.#add({ text: clean(line, MAX_LINE_BYTES), at: now() });
  }

  #add(line) {
    this.lines.push(line);
    this.#bytes += Buffer.byteLength(line.text);
    this.#next++;
    while (this.lines.length > MAX_LINES || this.#bytes > MAX_BYTES) this.#bytes -= Buffer.byteLength(this.lines.shift().text);
  }

  get empty() {
    return this.progress === undefined && !this.remark && !this.lines.length;
  }

  get #first() {
    return this.#next - this.lines.length;
  }

  /* Moves everything out, for `add` of another one. */
  take() {
    const { progress, remark, lines } = this;
    const taken = { progress, remark, lines, first: this.#first };
    this.progress = undefined;
    this.#bytes = 0;
    this.remark = "";
    this.lines = [];
    return taken;
  }

  /* Takes what another one has given. Numbers that are missing stay so. */
  add({ progress, remark, lines, first }) {
    this.progress = progress ?? this.progress;
    this.remark = remark || this.remark;
    if (first > this.#next) {
      this.lines = []; // what is older than lines that were dropped goes, too
      this.#bytes = 0;
      this.#next = first;
    }
    for (const line of lines) this.#add(line);
  }

  /* The fields of a message about the attempt. */
  fields() {
    const at = now();
    const lines = this.lines.map((line) => ({ text: line.text, ageMs: Math.max(Math.round(at - line.at), 0) }));
    return { progress: this.progress, remark: this.remark, firstLine: this.#first, lines };
  }

  /* Drops what a manager has taken. */
  acknowledged({ progress, remark, firstLine, lines }) {
    if (this.progress === progress) this.progress = undefined;
    if (this.remark === remark) this.remark = "";
    while (this.lines.length && this.#first < firstLine + lines.length) this.#bytes -= Buffer.byteLength(this.lines.shift().text);
  }
}
