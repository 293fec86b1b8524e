import type { IncomingHttpHeaders } from 'node:http'
import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Caller, ProxyFacts } from '../ports.ts'
import { fieldsOf, textOf } from '../protocols/protocol.ts'
import type { Fields } from './ports.ts'

/**
 * The conversations of a request. A request names none, so several keys are used, and it is untrusted if one of them is:
 *
 * 1. Its beginning, up to the first answer of the model, from the same caller at the same proxy. Answers and the ids of their
 *    calls come from the model, so two conversations that begin with the same question remain two.
 * 2. The session that the program names, in a header or in the body. This is a hint: it can join a request to an untrusted
 *    conversation, and never separate it from one.
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
  const keyed = (kind: string, text: string): ContextKey => {
    const who = JSON.stringify([identityOf(principal), caller.virtualKey, proxy?.id])
    return `conversation:proxy-${sha256Hex(`${kind}\n${who}\n${text}`).slice(0, KEY_CHARS)}`
  }
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
/** Ours, the documented ones, and those of agent programs. */
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
  const hints: string[] = []
  const add = (said: string | undefined): void => {
    if (said === undefined || said === '') return
    const hint = said.slice(0, HINT_CHARS_MAX)
    if (!hints.includes(hint)) hints.push(hint)
  }
  for (const name of sessionHeaders) add(textOf(headers[name]))
  // agent/run/session
  add(textOf(headers[META])?.split('/')[2])
  // Claude Code puts its session into the id of the user.
  const user = textOf(fieldsOf(body['metadata'])?.['user_id'])
  if (user !== undefined) add(SESSION.exec(user)?.[1])
  const { conversation } = body
  add(textOf(conversation) ?? textOf(fieldsOf(conversation)?.['id']))
  return hints
}
const SESSION = /session[^0-9a-f]{0,8}([0-9a-f][0-9a-f-]{7,63})/i
