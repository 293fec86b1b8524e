import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { ContextKey } from '../../contract/trust.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { REDACTED, type Redactor } from '../../kernel/redactor.ts'
import type { StoredApproval } from './ports.ts'

/** Fields whose values are hidden, by a part of their name. */
const SECRET_NAME =
  /pass(?:word|wd|phrase|code)|secret|token|credential|authori[sz]ation|cookie|api[-_ ]?key|private[-_ ]?key|access[-_ ]?key|^pin$|^otp$/i
const URL_PASSWORD = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@]*):[^\s/@]+@/gi
const BEARER = /\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi

type DisplayedArguments = Readonly<{ arguments: Json; isMasked: boolean }>

/**
 * Arguments for people. Values of fields that are named like a secret, credentials in URLs and headers, and the secrets of the
 * configuration are masked. Long texts and lists are cut, so that the result is bounded.
 */
export function displayedArguments(args: unknown, redactor: Redactor | undefined): DisplayedArguments {
  let isMasked = false
  const changed = <T>(value: T): T => {
    isMasked = true
    return value
  }
  const text = (value: string, charsMax: number): string => {
    const plain = value.replaceAll(URL_PASSWORD, `$1:${REDACTED}@`).replaceAll(BEARER, `$1 ${REDACTED}`)
    const clean = redactor?.text(plain) ?? plain
    if (clean !== value) isMasked = true
    if (clean.length <= charsMax) return clean.toWellFormed()
    return changed(`${clean.slice(0, charsMax).toWellFormed()}… (${clean.length - charsMax} more characters)`)
  }
  const view = (value: unknown, name: string, charsMax: number, depth: number): Json => {
    if (SECRET_NAME.test(name) && value !== null && typeof value !== 'boolean' && value !== '') return changed(REDACTED)
    if (typeof value === 'string') return text(value, charsMax)
    if (typeof value !== 'object' || value === null) return (value ?? null) as Json
    if (depth === 0) return changed('…')
    const entries = Object.entries(value)
    const members = entries.slice(0, limits.approvalMembersMax)
    if (members.length < entries.length) isMasked = true
    if (Array.isArray(value)) return members.map(([, member]) => view(member, '', charsMax, depth - 1))
    return Object.fromEntries(members.map(([key, member]) => [text(key, 128), view(member, key, charsMax, depth - 1)]))
  }
  for (let charsMax: number = limits.approvalTextCharsMax; charsMax >= 32; charsMax = Math.floor(charsMax / 8)) {
    const displayed = view(args, '', charsMax, limits.approvalDepthMax)
    if (JSON.stringify(displayed).length <= limits.approvalArgumentsCharsMax) return { arguments: displayed, isMasked }
  }
  return { arguments: `… (${JSON.stringify(args)?.length ?? 0} characters of JSON)`, isMasked: true }
}

/** Its status at the time, for people. */
export function statusAt({ status, expiresAtMs }: StoredApproval, nowMs: number): StoredApproval['status'] | 'expired' {
  return (status === 'pending' || status === 'approved') && expiresAtMs <= nowMs ? 'expired' : status
}

export const approvalNotFound = (): AppError =>
  new AppError(
    'ERR_NOT_FOUND',
    'id: there is no such approval; list those that wait for a person with castellan approvals list (approval_list).',
    { field: 'id' },
  )

export const notPending = (status: string): AppError =>
  new AppError(
    'ERR_APPROVAL_ANSWERED',
    `id: the approval is already ${status}; see who answered with castellan approvals show (approval_get).`,
    {
      field: 'id',
      status,
    },
  )

export const notWaiting = (): AppError =>
  new AppError(
    'ERR_EXECUTION_NOT_FOUND',
    'execution_id: no execution with this id waits for an answer; list those that do with castellan approvals list (approval_list).',
    { field: 'execution_id' },
  )

export const noLongerAwaited = (): AppError =>
  new AppError(
    'ERR_APPROVAL_ANSWERED',
    'id: this run no longer waits for an answer: it is already answered, or its time is over; see what came of it with castellan call aegis.workflow.logs execution_id=ID.',
    { field: 'id', status: 'answered' },
  )

/**
 * Whether the context requests it, or is the connection that started the requesting run. A caller without sessions is not a
 * connection.
 */
export const isRequestedFrom = (own: ContextKey, { context, startedFrom }: Origin): boolean =>
  own === context || (own === startedFrom && !own.startsWith('caller:'))
type Origin = Pick<StoredApproval, 'context' | 'startedFrom'>

/** An approval is useless if the blocked caller can approve itself. */
export const notForYou = (): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    'id: a person must answer, and not through a program that asks or that has read untrusted data: with castellan approvals, or signed in at the web address of the server. Agents, runs and keys may not.',
    { field: 'id' },
  )

/** The request is the caller's own, or one of a program or a run that acts as the caller. */
export const atConsoleOnly = (id: string): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `id: this approval was requested in your own name, so no program that acts as you can answer it, over any connection. Tell the person to answer it with castellan approvals approve ${id} or castellan approvals deny ${id}, or signed in at the web address of the server.`,
    { field: 'id' },
  )

export const forAnother = (): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    'id: this approval was requested for you, and approvals.four_eyes requires another person to answer: one with the permission approval:admin.',
    { field: 'id' },
  )
