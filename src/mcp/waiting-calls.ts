import { AppError } from '../contract/app-error.ts'
import type { Progress } from '../contract/call.ts'
import type { ClientAnswers, ClientNotification, ClientQuestions } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import { createMutex } from '../kernel/keyed-mutex.ts'
import { type Random, randomId } from '../kernel/random.ts'
import type { AnswerForwarding } from './forward-answers.ts'
import type { ListedStates } from './listed-tasks.ts'
import { identityOf } from './session-identity.ts'

/** The client's request that currently waits for the answer of a call. */
export type CallRequest = Readonly<{
  signal: AbortSignal
  progress?: ((update: Progress) => void) | undefined
  tell(notification: ClientNotification): void
}>

/** How a call uses its client. */
export type AskingCall = Readonly<{
  /** Aborted when the client disconnects, or does not answer in time. */
  signal: AbortSignal
  progress(update: Progress): void
  ask(questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers>
  tell(notification: ClientNotification): void
}>

type Outcome<T> =
  | Readonly<{ kind: 'answered'; answer: T }>
  | Readonly<{ kind: 'asks'; questions: ClientQuestions; state: string }>

type Settle = (outcome: Outcome<unknown>) => void
type PendingQuestions = Readonly<{ questions: ClientQuestions; answer(answers: ClientAnswers): void }>

type Waiting = {
  readonly principal: Principal
  readonly identity: string
  /** The subject of the call: the client must request the same again. */
  readonly subject: string
  readonly controller: AbortController
  request: CallRequest | undefined
  settle: Settle | undefined
  pending: PendingQuestions | undefined
  /** The outcome of the call while its client was away. */
  outcome: Outcome<unknown> | undefined
  state: string | undefined
  timer: NodeJS.Timeout | undefined
  /** Aborted when the state is no longer valid. */
  receiving: AbortController | undefined
}

/**
 * Calls of the stateless revision that wait for their client. A question is the answer to the client's request; the client
 * answers it by calling again with the state that it received. Meanwhile the call continues, and it is one call in the log.
 *
 * 1. A state works once, and only for the caller that received it.
 * 2. A call is cancelled if its client does not come back in time, or disconnects.
 * 3. They are lost with the process. The client is told so, and may call again.
 * 4. Where several processes share a store, a client may come back to any of them.
 */
export type WaitingCalls = Readonly<{
  /** The work never rejects: a failed call has an answer too. */
  begin<T>(
    principal: Principal,
    subject: string,
    request: CallRequest,
    work: (call: AskingCall) => Promise<T>,
  ): Promise<Outcome<T>>
  /** Undefined if no call of the caller waits under this state. */
  resume<T>(
    principal: Principal,
    subject: string,
    state: string,
    answers: Readonly<Record<string, unknown>>,
    request: CallRequest,
  ): Promise<Outcome<T> | undefined>
  forget(isMeant: (principal: Principal) => boolean): void
  close(): void
}>

type WaitingDeps = Readonly<{
  random: Random
  passing?: AnswerForwarding | undefined
  /** With `passing`: the states of all processes. An unlisted state is refused without asking them. */
  listed?: ListedStates | undefined
}>
type PassedAnswer = Readonly<{ identity: string; subject: string; answers: Readonly<Record<string, unknown>> }>
const NO_CALL = 'null'
/** Messages of a call before its answer. */
type Notice = Readonly<{ progress: Progress } | { notification: ClientNotification }>

const sayTo =
  (request: CallRequest) =>
  (text: string): void => {
    const notice = JSON.parse(text) as Notice
    if ('progress' in notice) request.progress?.(notice.progress)
    else request.tell(notice.notification)
  }

export function createWaitingCalls({ random, passing, listed }: WaitingDeps): WaitingCalls {
  const waiting = new Map<string, Waiting>()

  function attach<T>(call: Waiting, request: CallRequest): Promise<Outcome<T>> {
    call.request = request
    const { promise, resolve } = Promise.withResolvers<Outcome<unknown>>()
    call.settle = resolve
    const leave = (): void => call.controller.abort(request.signal.reason)
    if (request.signal.aborted) leave()
    request.signal.addEventListener('abort', leave, { once: true })
    return promise.finally(() => request.signal.removeEventListener('abort', leave)) as Promise<Outcome<T>>
  }

  function settle(call: Waiting, outcome: Outcome<unknown>): void {
    const { settle: answer } = call
    call.settle = undefined
    call.request = undefined
    if (answer === undefined) call.outcome = outcome
    else answer(outcome)
  }

  function remove(call: Waiting): void {
    clearTimeout(call.timer)
    call.receiving?.abort()
    if (call.state !== undefined) waiting.delete(call.state)
    call.state = undefined
  }

  function requireSpace({ identity }: Waiting): void {
    const own = [...waiting.values()].filter((one) => one.identity === identity).length
    if (own < limits.mcpWaitingPerCallerMax && waiting.size < limits.mcpWaitingMax) return
    throw new AppError('ERR_BUSY', 'Too many calls are waiting for answers from clients. Call again later.', {
      retry_after_ms: 5_000,
    })
  }

  /** Sends the questions to the client; the call waits under a new state. */
  function suspend(call: Waiting): void {
    const state = randomId(random, 'call')
    call.state = state
    waiting.set(state, call)
    call.timer = setTimeout(() => {
      remove(call)
      call.controller.abort(new AppError('ERR_CANCELLED', 'The client did not answer in time. Call again.'))
    }, limits.mcpAnswerMs).unref()
    call.receiving = new AbortController()
    receive(call, state, call.receiving.signal)
    const asks = { kind: 'asks', questions: call.pending!.questions, state } as const
    if (listed === undefined) settle(call, asks)
    else void listed.add(call.principal, state, call.receiving.signal).then(() => settleUnlessAnswered(call, asks))
  }

  /** The call may have ended while its question was being listed. Then its client has the answer and needs no state. */
  function settleUnlessAnswered(call: Waiting, asks: Outcome<unknown>): void {
    if (call.settle === undefined) remove(call)
    else settle(call, asks)
  }

  async function ask(call: Waiting, questions: ClientQuestions, signal: AbortSignal): Promise<ClientAnswers> {
    const { promise, resolve, reject } = Promise.withResolvers<ClientAnswers>()
    const stop = (): void => reject(new AppError('ERR_CANCELLED', 'The question is no longer open.'))
    const until = AbortSignal.any([signal, call.controller.signal])
    until.addEventListener('abort', stop, { once: true })
    if (until.aborted) stop()
    try {
      if (!until.aborted) {
        requireSpace(call)
        call.pending = { questions, answer: resolve }
        suspend(call)
      }
      return await promise
    } finally {
      until.removeEventListener('abort', stop)
      call.pending = undefined
    }
  }

  function resumeHere<T>(
    state: string,
    { identity, subject, answers }: PassedAnswer,
    request: CallRequest,
  ): Promise<Outcome<T>> | undefined {
    const call = waiting.get(state)
    if (call === undefined || call.identity !== identity || call.subject !== subject) return undefined
    remove(call)
    const outcome = attach<T>(call, request)
    if (call.outcome !== undefined) settle(call, call.outcome)
    else if (call.pending !== undefined) {
      const { questions, answer } = call.pending
      if (Object.keys(questions).every((key) => Object.hasOwn(answers, key))) answer(answers as ClientAnswers)
      else suspend(call)
    }
    return outcome
  }

  /** The client may answer at another process. Messages before the answer go there too. */
  function receive({ principal }: Waiting, state: string, ended: AbortSignal): void {
    passing?.receive(
      principal.tenant,
      state,
      async (answer, signal, notify) => {
        const say = (notice: Notice): void => notify(JSON.stringify(notice))
        const outcome = await resumeHere(state, JSON.parse(answer) as PassedAnswer, {
          signal,
          progress: (progress) => say({ progress }),
          tell: (notification) => say({ notification }),
        })
        return outcome === undefined ? NO_CALL : JSON.stringify(outcome)
      },
      ended,
    )
  }

  return {
    begin(principal, subject, request, work) {
      const call: Waiting = {
        principal,
        identity: identityOf(principal),
        subject,
        controller: new AbortController(),
        request: undefined,
        settle: undefined,
        pending: undefined,
        outcome: undefined,
        state: undefined,
        timer: undefined,
        receiving: undefined,
      }
      const outcome = attach<never>(call, request)
      const withLock = createMutex()
      void work({
        signal: call.controller.signal,
        progress: (update) => call.request?.progress?.(update),
        tell: (notification) => call.request?.tell(notification),
        // A client answers one request at a time.
        ask: (questions, signal) => withLock(() => ask(call, questions, signal)),
      }).then((answer) => settle(call, { kind: 'answered', answer }))
      return outcome
    },
    async resume<T>(
      principal: Principal,
      subject: string,
      state: string,
      answers: Readonly<Record<string, unknown>>,
      request: CallRequest,
    ): Promise<Outcome<T> | undefined> {
      const identity = identityOf(principal)
      const passed: PassedAnswer = { identity, subject, answers }
      if (waiting.has(state)) return await resumeHere<T>(state, passed, request)
      if (listed !== undefined && !(await listed.has(principal, state))) return undefined
      const { signal } = request
      const outcome = await passing?.send(principal.tenant, state, JSON.stringify(passed), signal, sayTo(request))
      return outcome === undefined || outcome === NO_CALL ? undefined : (JSON.parse(outcome) as Outcome<T>)
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
