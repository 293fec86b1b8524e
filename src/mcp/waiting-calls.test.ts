import { afterEach, describe, expect, it } from 'vitest'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { systemRandom } from '../kernel/random.ts'
import { type AskingCall, type CallRequest, createWaitingCalls } from './waiting-calls.ts'

const waiting = createWaitingCalls({ random: systemRandom })
const other: Principal = { ...localOwner, gateway: 'another' }
const questions = { name: { method: 'elicitation/create', params: { message: 'Who?' } } } as const
const never = new AbortController().signal
const request = (signal = never): CallRequest => ({ signal, tell: () => {} })
const askOnce = ({ ask, signal }: AskingCall) => ask(questions, signal).then(JSON.stringify, String)

async function begin(work = askOnce) {
  const outcome = await waiting.begin(localOwner, 'greet', request(), work)
  if (outcome.kind !== 'asks') throw new Error('it did not ask')
  return outcome
}
const resume = (state: string, answers: object, principal = localOwner, subject = 'greet') =>
  waiting.resume<string>(principal, subject, state, answers as Record<string, unknown>, request())

afterEach(() => waiting.close())

describe('a call that asks its client', () => {
  it('goes on with the answers, which the client brings once', async () => {
    const { state, questions: asked } = await begin()
    expect(asked).toEqual(questions)
    expect(await resume(state, { name: { action: 'accept' } })).toEqual({
      kind: 'answered',
      answer: '{"name":{"action":"accept"}}',
    })
    expect(await resume(state, { name: {} })).toBeUndefined()
  })

  it('is there for no other caller, and for no other request', async () => {
    const { state } = await begin()
    expect(await resume(state, { name: {} }, other)).toBeUndefined()
    expect(await resume(state, { name: {} }, localOwner, 'delete')).toBeUndefined()
    expect(await resume(`${state}x`, { name: {} })).toBeUndefined()
    expect(await resume(state, { name: {} })).toMatchObject({ kind: 'answered' })
  })

  it('asks again what was not answered, under another state', async () => {
    const { state } = await begin()
    const again = await resume(state, {})
    expect(again).toMatchObject({ kind: 'asks', questions })
    expect(again).not.toMatchObject({ state })
  })

  it('asks one thing after the other', async () => {
    const { state } = await begin(async ({ ask, signal }) => {
      const both = await Promise.all([ask(questions, signal), ask(questions, signal)])
      return JSON.stringify(both)
    })
    const second = await resume(state, { name: { n: 1 } })
    if (second?.kind !== 'asks') throw new Error('it did not ask again')
    expect(await resume(second.state, { name: { n: 2 } })).toEqual({
      kind: 'answered',
      answer: '[{"name":{"n":1}},{"name":{"n":2}}]',
    })
  })

  it('keeps its answer for a client that comes back after it ended', async () => {
    const given = new AbortController()
    const ended = Promise.withResolvers<void>()
    const { state } = await begin(async ({ ask }) => {
      await ask(questions, given.signal).catch(() => {})
      queueMicrotask(ended.resolve)
      return 'gave up'
    })
    given.abort()
    await ended.promise
    expect(await resume(state, {})).toEqual({ kind: 'answered', answer: 'gave up' })
  })

  it('is cancelled when its client leaves, when it is forgotten, and when the server closes', async () => {
    const client = new AbortController()
    const hanging = waiting.begin(localOwner, 'x', request(client.signal), ({ signal }) => untilAborted(signal))
    client.abort()
    expect(await hanging).toEqual({ kind: 'answered', answer: 'aborted' })
    const cancelled: string[] = []
    const work = async ({ ask, signal }: AskingCall) => {
      await ask(questions, signal).catch(() => cancelled.push('cancelled'))
      return ''
    }
    const { state } = await begin(work)
    waiting.forget((principal) => principal === localOwner)
    expect(await resume(state, { name: {} })).toBeUndefined()
    await begin(work)
    waiting.close()
    await expect.poll(() => cancelled).toHaveLength(2)
  })

  it('is refused a question when too many of its caller wait', async () => {
    for (let count = 0; count < limits.mcpWaitingPerCallerMax; count++) await begin()
    const outcome = waiting.begin(localOwner, 'greet', request(), ({ ask, signal }) =>
      ask(questions, signal).then(() => 'asked', String),
    )
    expect(await outcome).toMatchObject({
      kind: 'answered',
      answer: expect.stringContaining('Too many calls are waiting'),
    })
  })
})

const untilAborted = (signal: AbortSignal): Promise<string> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve('aborted')))

describe('where several processes share a store', () => {
  /** Two processes, and the states that either lists. A state that is sent to the other one is noted. */
  function twoProcesses() {
    const states = new Set<string>()
    const sent: string[] = []
    const listed = {
      async add(_principal: Principal, state: string, removed: AbortSignal) {
        states.add(state)
        removed.addEventListener('abort', () => states.delete(state), { once: true })
      },
      has: async (_principal: Principal, state: string) => states.has(state),
    }
    const passing = {
      send: async (_tenant: string, state: string) => void sent.push(state),
      receive: () => {},
    }
    const one = () => createWaitingCalls({ random: systemRandom, passing: passing as never, listed })
    return { here: one(), there: one(), states, sent }
  }
  const answers = { name: { action: 'accept' } }

  it('a state that no process lists is refused without asking the others', async () => {
    const { here, there, states, sent } = twoProcesses()
    const asked = await here.begin(localOwner, 'greet', request(), askOnce)
    if (asked.kind !== 'asks') throw new Error('it did not ask')
    expect([...states]).toEqual([asked.state])
    expect(await there.resume(localOwner, 'greet', 'call_unknown', answers, request())).toBeUndefined()
    expect(sent).toEqual([])
    await there.resume(localOwner, 'greet', asked.state, answers, request())
    expect(sent).toEqual([asked.state])
    expect(await here.resume(localOwner, 'greet', asked.state, answers, request())).toMatchObject({ kind: 'answered' })
    expect([...states]).toEqual([])
    expect(await there.resume(localOwner, 'greet', asked.state, answers, request())).toBeUndefined()
    expect(sent).toEqual([asked.state])
  })

  it('a call that ends while its question is being listed answers its client', async () => {
    const listing = Promise.withResolvers<void>()
    const passing = { send: async () => undefined, receive: () => {} }
    const listed = { add: () => listing.promise, has: async () => true }
    const calls = createWaitingCalls({ random: systemRandom, passing: passing as never, listed })
    const given = new AbortController()
    const outcome = calls.begin(localOwner, 'greet', request(), ({ ask }) =>
      ask(questions, given.signal).then(JSON.stringify, () => 'gave up'),
    )
    given.abort()
    expect(await outcome).toEqual({ kind: 'answered', answer: 'gave up' })
    listing.resolve()
  })
})
