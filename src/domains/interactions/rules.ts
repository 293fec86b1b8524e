import type { InteractionBodies } from '../../contract/interaction.ts'
import { limits } from '../../contract/limits.ts'
import type { StoredBodies } from './ports.ts'

const PREFIX = 'ix'
const TIME_DIGITS = 9
const COUNT_DIGITS = 6
const RADIX = 36

/**
 * Ids are digits and lower-case letters of equal length, so that every database orders them by time. `boot` has eight of them and
 * identifies the process.
 */
export const interactionId = (startedAtMs: number, boot: string, count: number): string =>
  `${firstIdAt(startedAtMs)}${boot}${count.toString(RADIX).padStart(COUNT_DIGITS, '0')}`

/** No interaction that began at that time or later has a smaller id. */
export const firstIdAt = (ms: number): string =>
  `${PREFIX}${Math.max(0, Math.floor(ms)).toString(RADIX).padStart(TIME_DIGITS, '0')}`

export const bodySettings = ['none', 'redacted', 'full'] as const
export type BodySetting = (typeof bodySettings)[number]

/** Redacts known secrets. */
type Redact = (text: string) => string

/** The stored part of the bodies. Redaction comes before truncation, so that half a secret is never left. */
export function retainedBodies(
  { request, answer }: InteractionBodies,
  setting: BodySetting,
  redact: Redact,
): StoredBodies | undefined {
  if (setting === 'none') return undefined
  const isRedacted = setting === 'redacted'
  let isWhole = true
  const retained = (body: Buffer | undefined): string | null => {
    if (body === undefined) return null
    // A very long text is cut first, because redacting it would block other work.
    const text = body.subarray(0, limits.interactionBodyReadMax).toString('utf8')
    const displayed = isRedacted ? withoutCredentials(redact(text)) : text
    const isCut = body.length > limits.interactionBodyReadMax
    if (isCut || displayed.length > limits.interactionBodyCharsMax) isWhole = false
    // PostgreSQL cannot store U+0000.
    return displayed.slice(0, limits.interactionBodyCharsMax).replaceAll('\u0000', '\ufffd').toWellFormed()
  }
  return { request: retained(request), answer: retained(answer), isWhole, isRedacted }
}

const REDACTED = '***'
/** Credentials with a known form. Each pattern takes linear time. */
const credentials: readonly RegExp[] = [
  /\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,}/g,
  /\b(?:cst|cvk|arch|ghp|gho|ghu|ghs|ghr|glpat|npm|hf|xox[abeoprs]|github_pat)[_-][A-Za-z0-9_-]{16,}/g,
  /\bAKIA[0-9A-Z]{16}\b/g,
  /\bAIza[A-Za-z0-9_-]{30,}/g,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/g,
  /\b[Bb]earer [A-Za-z0-9._~+/-]{16,}=*/g,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
  /(?<=:\/\/[^\s/:@"\\]{1,256}:)[^\s/@"\\]{1,256}(?=@)/g,
]

const withoutCredentials = (text: string): string =>
  credentials.reduce((left, pattern) => left.replace(pattern, REDACTED), text)
