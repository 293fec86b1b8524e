import { AppError } from '../contract/app-error.ts'
import { type Checkpoint, type NoteVerifier, openCheckpoint } from './checkpoint.ts'

/** The errors that the offline verifier can find. The names are public: scripts match on them. */
export const verifyRules = [
  'format',
  'header',
  'wrong-key',
  'checkpoint-malformed',
  'checkpoint-signer',
  'checkpoint-signature',
  'checkpoint-origin',
  'checkpoint-size',
  'tenant',
  'line-too-long',
  'truncated',
  'extra-record',
  'record-encoding',
  'record-json',
  'record-canonical',
  'record-shape',
  'record-tenant',
  'effect-shape',
  'effect-hash',
  'thought-shape',
  'thought-hash',
  'thought-link',
  'thought-position',
  'known-checkpoint',
  'root',
  'inclusion',
  'consistency',
] as const
type VerifyRule = (typeof verifyRules)[number]

export type VerifyProblem = Readonly<{
  rule: VerifyRule
  message: string
  /** 1-based line of the file. */
  line?: number
  /** 0-based entry of the log. */
  seq?: number
  field?: string
  expected?: unknown
  actual?: unknown
}>

/** Ends a verification at the first error. Never leaves the verifier. */
export class VerifyFailure extends Error {
  override name = 'VerifyFailure'
  readonly problem: VerifyProblem

  constructor(problem: VerifyProblem) {
    super(problem.message)
    this.problem = problem
  }
}

type ProblemLocation = Readonly<Omit<VerifyProblem, 'rule' | 'message'>>

export function fail(rule: VerifyRule, message: string, location: ProblemLocation = {}): never {
  throw new VerifyFailure({ rule, message, ...location })
}

/** Opens a note of the document; `field` is its name in the document. */
export function openDocumentCheckpoint(note: string, verifier: NoteVerifier, location: ProblemLocation): Checkpoint {
  try {
    return openCheckpoint(note, verifier)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const part = error.details['field']
    const rule =
      part === 'signer' ? 'checkpoint-signer' : part === 'signature' ? 'checkpoint-signature' : 'checkpoint-malformed'
    return fail(rule, error.message, location)
  }
}
