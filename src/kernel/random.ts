import { randomBytes } from 'node:crypto'

/** The only source of randomness, so that a test can replay a run. */
export type Random = Readonly<{ bytes(count: number): Buffer }>

export const systemRandom: Random = { bytes: (count) => randomBytes(count) }

export const randomId = (random: Random, prefix: string): string =>
  `${prefix}_${random.bytes(12).toString('base64url')}`
