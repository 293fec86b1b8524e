import type { ServerResponse } from 'node:http'
import type { Logger } from '../kernel/logger.ts'
import type { AnswerForwarding } from './forward-answers.ts'
import type { HttpSession } from './http-sessions.ts'
import { isReply, ownReply } from './question-ids.ts'

type ForwardingDeps = Readonly<{ passing: AnswerForwarding | undefined; logger: Logger }>

/** The key under which answers to questions of a session are forwarded. */
const repliesOf = ({ id, owner }: Pick<HttpSession, 'id' | 'owner'>): string => `session ${id} ${owner}`

/** While a question is open, answers that reached other processes are accepted too. */
export function receiveReplies({ passing }: ForwardingDeps, sessionOf: () => HttpSession): () => () => void {
  let open = 0
  let receiving: AbortController | undefined
  return () => {
    open++
    if (receiving === undefined) {
      receiving = new AbortController()
      const session = sessionOf()
      const serve = async (text: string): Promise<string> => {
        const reply = ownReply(JSON.parse(text) as Parameters<typeof ownReply>[0], session.questionName!)
        if (reply !== undefined) session.transport.onmessage?.(reply)
        return 'taken'
      }
      passing!.receive(session.caller.principal.tenant, repliesOf(session), serve, receiving.signal)
    }
    return () => {
      open--
      if (open > 0) return
      receiving?.abort()
      receiving = undefined
    }
  }
}

/**
 * How this process handles a message of a client. The answer to a question of another process is forwarded to it, and `res` is
 * served; if no process waits for the answer, it is ignored. Every other message goes to the session.
 */
export function messageHere(
  deps: ForwardingDeps,
  session: HttpSession,
  res: ServerResponse,
  body: unknown,
): Readonly<{ body: unknown }> | undefined {
  if (session.questionName === undefined || !isReply(body)) return { body }
  const own = ownReply(body, session.questionName)
  if (own !== undefined) return { body: own }
  const never = new AbortController().signal
  deps.passing!.send(session.caller.principal.tenant, repliesOf(session), JSON.stringify(body), never).then(
    () => res.writeHead(202).end(),
    (error: unknown) => {
      deps.logger.warn('answer of a client could not be forwarded', { cause: String(error) })
      res.writeHead(503, { 'retry-after': '5' }).end()
    },
  )
  return undefined
}
