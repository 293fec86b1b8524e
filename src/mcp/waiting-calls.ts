import { AppError } from '../contract/app-error.ts'
import type { Progress } from '../contract/call.ts'
import type { ClientAnswers, ClientNotification, ClientQuestions } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import { type Random, randomId } from '../kernel/random.ts'
import { identityOf } from './session-identity.ts'

/** The request of a client that waits for the answer of a call at the moment. */
export type Leg = Readonly<{
  signal: AbortSignal
  progress?: ((update: Progress) => void) | undefined
  tell(notification: ClientNotification): void
}>

/** What a call can do with its client. */
export type AskingCall = Readonly<{
  /** Aborted when the client goes away, or does not answer in time. */
  signal: AbortSignal
  progress(update: Progress): void
  ask(questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  tell(notification: ClientNotification): void
}>

type Outcome<T> =
  | Readonly<{ kind: 'answered'; answer: T }>
  | Readonly<{ kind: 'asks'; questions: ClientQuestions; state: string }>

type Settle = (outcome: Outcome<unknown>) => void
type Asked = Readonly<{ questions: ClientQuestions; answer(answers: ClientAnswers): void }>

type Waiting = {
  readonly principal: Principal
  readonly identity: string
  /** What was asked for: the client has to ask for the same again. */
  readonly subject: string
  readonly controller: AbortController
  leg: Leg | undefined
  settle: Settle | undefined
  asked: Asked | undefined
  /** What came of the call while its client was away. */
  outcome: Outcome<unknown> | undefined
  state: string | undefined
  timer: NodeJS.Timeout | undefined
}

/**
 * Calls of the stateless revision that wait for their client. A question is the answer to the request of the client, which answers it by
 * calling again with the state that it was given. The call itself goes on meanwhile, and is one call in the log.
 *
 * 1. A state works once, and for the caller to whom it was given.
 * 2. A call whose client does not come back in time is cancelled; so is one whose client disconnects.
 * 3. They are lost with the process. The client is told so, and may call anew.
 */
export type WaitingCalls = Readonly<{
  /** The work never rejects: a call that fails has an answer too. */
  begin<T>(principal: Principal, subject: string, leg: Leg, work: (call: AskingCall) => Promise<T>): Promise<Outcome<T>>
  /** Undefined if no call of the caller waits under this state. */
  resume<T>(
    principal: Principal,
    subject: string,
    state: string,
    answers: Readonly<Record<string, unknown>>,
    leg: Leg,
  ): Promise<Outcome<T>> | undefined
  forget(isMeant: (principal: Principal) => boolean): void
  close(): void
}>

export function createWaitingCalls({ random }: Readonly<{ random: Random }>): WaitingCalls {
  const waiting = new Map<string, Waiting>()

  function attach<T>(call: Waiting, leg: Leg): Promise<Outcome<T>> {
    call.leg = leg
    const { promise, resolve } = Promise.withResolvers<Outcome<unknown>>()
    call.settle = resolve
    const leave = (): void => call.controller.abort(leg.signal.reason)
    if (leg.signal.aborted) leave()
    leg.signal.addEventListener('abort', leave, { once: true })
    return promise.finally(() => leg.signal.removeEventListener('abort', leave)) as Promise<Outcome<T>>
  }

  function settle(call: Waiting, outcome: Outcome<unknown>): void {
    const { settle: answer } = call
    call.settle = undefined
    call.leg = undefined
    if (answer === undefined) call.outcome = outcome
    else answer(outcome)
  }

  function remove(call: Waiting): void {
    clearTimeout(call.timer)
    if (call.state !== undefined) waiting.delete(call.state)
    call.state = undefined
  }

  function requireSpace({ identity }: Waiting): void {
    const own = [...waiting.values()].filter((one) => one.identity === identity).length
    if (own < limits.mcpWaitingPerCallerMax && waiting.size < limits.mcpWaitingMax) return
    throw new AppError('ERR_BUSY', 'Too many calls wait for answers of clients.', { retry_after_ms: 5_000 })
  }

  /** The client is told the questions, and has the call wait under a new state. */
  function suspend(call: Waiting): void {
    const state = randomId(random, 'call')
    call.state = state
    waiting.set(state, call)
    call.timer = setTimeout(() => {
      remove(call)
      call.controller.abort(new AppError('ERR_CANCELLED', 'The client did not answer what was asked.'))
    }, limits.mcpAnswerMs).unref()
    settle(call, { kind: 'asks', questions: call.asked!.questions, state })
  }

  async function ask(call: Waiting, questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers> {
    const { promise, resolve, reject } = Promise.withResolvers<ClientAnswers>()
    const stop = (): void => reject(new AppError('ERR_CANCELLED', 'The question is not open any more.'))
    const until = AbortSignal.any([signal, call.controller.signal])
    until.addEventListener('abort', stop, { once: true })
    if (until.aborted) stop()
    try {
      if (!until.aborted) {
        requireSpace(call)
        call.asked = { questions, answer: resolve }
        suspend(call)
      }
      return await promise
    } finally {
      until.removeEventListener('abort', stop)
      call.asked = undefined
    }
  }

  return {
    begin(principal, subject, leg, work) {
      const call: Waiting = {
        principal,
        identity: identityOf(principal),
        subject,
        controller: new AbortController(),
        leg: undefined,
        settle: undefined,
        asked: undefined,
        outcome: undefined,
        state: undefined,
        timer: undefined,
      }
      const outcome = attach<never>(call, leg)
      let before: Promise<unknown> = Promise.resolve()
      void work({
        signal: call.controller.signal,
        progress: (update) => call.leg?.progress?.(update),
        tell: (notification) => call.leg?.tell(notification),
        ask(questions, signal) {
          // One after the other: a client answers a request at a time.
          const mine = before.then(() => ask(call, questions, signal))
          before = mine.catch(() => {})
          return mine
        },
      }).then((answer) => settle(call, { kind: 'answered', answer }))
      return outcome
    },
    resume<T>(
      principal: Principal,
      subject: string,
      state: string,
      answers: Readonly<Record<string, unknown>>,
      leg: Leg,
    ): Promise<Outcome<T>> | undefined {
      const call = waiting.get(state)
      if (call === undefined || call.identity !== identityOf(principal) || call.subject !== subject) return undefined
      remove(call)
      const outcome = attach<T>(call, leg)
      if (call.outcome !== undefined) settle(call, call.outcome)
      else if (call.asked !== undefined) {
        const { questions, answer } = call.asked
        if (Object.keys(questions).every((key) => Object.hasOwn(answers, key))) answer(answers as ClientAnswers)
        else suspend(call)
      }
      return outcome
    },
    forget(isMeant) {
      for (const call of [...waiting.values()]) {
        if (!isMeant(call.principal)) continue
        remove(call)
        call.controller.abort()
      }
    },
    close() {
      for (const call of [...waiting.values()]) {
        remove(call)
        call.controller.abort()
      }
    },
  }
}
