import { Transform } from 'node:stream'

/**
 * A second line of defence: an upstream that echoes a request (a debug page, an error text) would reveal the secret to the
 * workload. A match is replaced by as many asterisks, so lengths stay the same. Only plain text is searched: an upstream that
 * encodes a secret before it answers must not be given one.
 */
type SecretMask = Readonly<{
  maskText(text: string): string
  /** Passes everything on at once, except a tail that may be the beginning of a secret. */
  createStream(): Transform
}>

/** Shorter ones would match ordinary text by accident. */
const SECRET_CHARACTERS_MIN = 8
const STAR = 0x2a

export function createSecretMask(values: readonly string[]): SecretMask {
  const secrets = [...new Set(values.flatMap(partsOf))]
    .filter((secret) => secret.length >= SECRET_CHARACTERS_MIN)
    .sort((a, b) => b.length - a.length)
    .map((secret) => Buffer.from(secret, 'latin1'))

  return {
    maskText(text) {
      const bytes = Buffer.from(text, 'latin1')
      maskIn(bytes, secrets)
      return bytes.toString('latin1')
    },
    createStream() {
      let held: Buffer = Buffer.alloc(0)
      return new Transform({
        transform(chunk: Buffer, _, done) {
          const bytes = Buffer.concat([held, chunk])
          maskIn(bytes, secrets)
          const keep = Math.max(0, ...secrets.map((secret) => beginningAtEnd(bytes, secret)))
          held = bytes.subarray(bytes.length - keep)
          done(null, bytes.subarray(0, bytes.length - keep))
        },
        flush(done) {
          done(null, held)
        },
      })
    },
  }
}

/** In `Bearer abc`, `abc` is a secret too. */
const partsOf = (value: string): readonly string[] => [value, value.slice(value.lastIndexOf(' ') + 1)]

function maskIn(bytes: Buffer, secrets: readonly Buffer[]): void {
  for (const secret of secrets) {
    for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at + secret.length)) {
      bytes.fill(STAR, at, at + secret.length)
    }
  }
}

/** How many of the last bytes are a prefix of the secret. */
function beginningAtEnd(bytes: Buffer, secret: Buffer): number {
  for (let length = Math.min(secret.length - 1, bytes.length); length > 0; length--) {
    if (bytes.subarray(bytes.length - length).equals(secret.subarray(0, length))) return length
  }
  return 0
}
