export const REDACTED = '[redacted]'
const NOTHING = Buffer.alloc(0)

/** Keys are printable ASCII, so that every other byte stays as it is. */
export function withoutKey(bytes: Buffer, key: string): Buffer {
  if (!bytes.includes(key)) return bytes
  return Buffer.from(bytes.toString('latin1').replaceAll(key, REDACTED), 'latin1')
}

/** Masks a key in bytes that come in parts. What may be the beginning of the key waits for the next part. */
export class KeyMask {
  readonly #key: string
  readonly #first: number
  #held: Buffer = NOTHING

  constructor(key: string) {
    this.#key = key
    this.#first = key.charCodeAt(0)
  }

  take(chunk: Buffer): Buffer {
    const joined = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    const bytes = withoutKey(joined, this.#key)
    const held = this.#beginningIn(bytes)
    this.#held = held === 0 ? NOTHING : Buffer.from(bytes.subarray(bytes.length - held))
    return held === 0 ? bytes : bytes.subarray(0, bytes.length - held)
  }

  finish(): Buffer {
    const held = this.#held
    this.#held = NOTHING
    return held
  }

  /** How many of the last bytes the key may begin with. */
  #beginningIn(bytes: Buffer): number {
    const from = Math.max(0, bytes.length - this.#key.length + 1)
    for (let at = bytes.indexOf(this.#first, from); at !== -1; at = bytes.indexOf(this.#first, at + 1)) {
      if (this.#key.startsWith(bytes.toString('latin1', at))) return bytes.length - at
    }
    return 0
  }
}
