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
