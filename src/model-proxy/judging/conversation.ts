import type { IncomingHttpHeaders } from 'node:http'
import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Caller, ProxyFacts } from '../ports.ts'
import { fieldsOf, textOf } from '../protocols/protocol.ts'
import type { Fields } from './ports.ts'

/**
 * To which conversations a request belongs. A request has no name of its own for that, so several are used, and it is untrusted as
 * soon as one of them is:
 *
 * 1. Its beginning, up to the first answer of the model, from the same caller at the same proxy. Answers and the ids of calls in them
 *    are the model's, so two conversations that begin with the same question are still two.
 * 2. What the program calls its session, in a header or in the body. This is a hint: it can join a request to an untrusted
 *    conversation, and never part it from one.
 * 3. The run or conversation of the caller's own credential.
 */
export function contextsOf(
  caller: Caller,
  proxy: ProxyFacts | undefined,
  headers: IncomingHttpHeaders,
  body: Fields,
  beginning: unknown,
): ContextKey[] {
  const { principal } = caller
  const who = JSON.stringify([identityOf(principal), caller.virtualKey, proxy?.id])
  const keyed = (kind: string, text: string): ContextKey =>
    `conversation:proxy-${sha256Hex(`${kind}\n${who}\n${text}`).slice(0, KEY_CHARS)}`
  const contexts = hintsOf(headers, body).map((hint) => keyed('session', hint))
  if (beginning !== undefined) {
    contexts.push(keyed('beginning', JSON.stringify(beginning).slice(0, limits.conversationBeginningCharsMax)))
  }
  if (principal.runRootId !== undefined) contexts.push(`execution:${principal.runRootId}`)
  if (principal.conversationId !== undefined) contexts.push(`conversation:${principal.conversationId}`)
  return contexts
}

const KEY_CHARS = 40
const HINT_CHARS_MAX = 256
/** Ours, those of the document, and those that agent programs send. */
const sessionHeaders = [
  'x-castellan-session-id',
  'x-archestra-session-id',
  'x-claude-code-session-id',
  'x-session-id',
  'session-id',
  'session_id',
  'conversation_id',
] as const
const META = 'x-archestra-meta'

function hintsOf(headers: IncomingHttpHeaders, body: Fields): readonly string[] {
  const hints = new Set<string>()
  for (const name of sessionHeaders) hints.add(textOf(headers[name]) ?? '')
  // agent/run/session
  hints.add(textOf(headers[META])?.split('/')[2] ?? '')
  // Claude Code says its session inside the id of the user.
  hints.add(SESSION.exec(textOf(fieldsOf(body['metadata'])?.['user_id']) ?? '')?.[1] ?? '')
  const { conversation } = body
  hints.add(textOf(conversation) ?? textOf(fieldsOf(conversation)?.['id']) ?? '')
  hints.delete('')
  return [...hints].map((hint) => hint.slice(0, HINT_CHARS_MAX))
}
const SESSION = /session[^0-9a-f]{0,8}([0-9a-f][0-9a-f-]{7,63})/i
