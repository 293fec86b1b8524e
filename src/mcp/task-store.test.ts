import { describe, expect, it } from 'vitest'
import { movableClock, ownerCaller } from '../../test/support/app.ts'
import { limits } from '../contract/limits.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { silentLogger } from '../kernel/logger.ts'
import { systemRandom } from '../kernel/random.ts'
import { createInFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { everPresent } from '../tools/runtime/presence.ts'
import type { CallDuration, ToolAnswer, ToolHost } from '../tools/runtime/tool-host.ts'
import { callInTask } from './calls-in-tasks.ts'
import { identityOf } from './session-identity.ts'
import { createStartCall } from './start-call.ts'
import { createTaskStore, declaresTasks, type TaskHandle } from './task-store.ts'
import { createToolLists } from './tool-list.ts'

const keyOf = (name: string): Principal => ({ ...localOwner, tier: 'user', kind: 'key', actor: name, keyId: name })
const [ann, bob] = [keyOf('ann'), keyOf('bob')]
const [annId, bobId] = [identityOf(ann), identityOf(bob)]
const done = { content: [{ type: 'text' as const, text: 'done' }] }
const open = () => {
  const clock = movableClock()
  return { clock, store: createTaskStore({ clock, random: systemRandom }) }
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('the book of tasks', () => {
  it('has room for the owner, whatever others have in it, and keeps nothing of who is gone', async () => {
    const { store } = open()
    const others = Array.from({ length: limits.mcpTasksMax }, (_, index) => keyOf(`key-${index % 50}`))
    const signals: AbortSignal[] = []
    const made = others.filter(
      (principal) =>
        store.create(principal, ({ signal }) => {
          signals.push(signal)
          return new Promise(() => {})
        }) !== undefined,
    )
    await settled()
    expect(made.length).toBe(limits.mcpTasksMax - 2 * limits.mcpTasksReserved)
    expect(store.create(localOwner, async () => done)).toBeDefined()
    store.forget((principal) => principal.kind === 'key')
    expect(signals.every((signal) => signal.aborted)).toBe(true)
    expect(store.create(ann, async () => done)).toBeDefined()
  })

  it('keeps a task for the caller that made it, and shows it to nobody else', async () => {
    const { store } = open()
    const created = store.create(ann, async () => done)!
    const id = created['taskId'] as string
    expect(created).toMatchObject({ resultType: 'task', status: 'working', ttlMs: limits.mcpTaskTtlMs })
    await settled()
    expect(store.get(annId, id)).toMatchObject({ taskId: id, status: 'completed', result: done })
    expect([store.get(bobId, id), store.cancel(bobId, id), store.answer(bobId, id, {})]).toEqual([
      undefined,
      false,
      false,
    ])
  })

  it('ends a task when it is cancelled, whatever its work answers then', async () => {
    const { store } = open()
    let handle: TaskHandle | undefined
    const id = store.create(ann, (input) => {
      handle = input
      return new Promise((resolve) => input.signal.addEventListener('abort', () => resolve(done)))
    })!['taskId'] as string
    await settled()
    expect(store.cancel(annId, id)).toBe(true)
    await settled()
    expect(handle?.signal.aborted).toBe(true)
    expect(store.get(annId, id)).toMatchObject({ status: 'cancelled' })
    expect(store.get(annId, id)).not.toHaveProperty('result')
  })

  it('asks for input and goes on when all of it is there', async () => {
    const { store } = open()
    const request = { method: 'roots/list' as const, params: {} }
    const id = store.create(ann, async ({ ask }) => {
      const answers = await ask({ one: request, two: request })
      return { content: [{ type: 'text', text: JSON.stringify(answers) }] }
    })!['taskId'] as string
    await settled()
    expect(store.get(annId, id)).toMatchObject({
      status: 'input_required',
      inputRequests: { one: request, two: request },
    })
    store.answer(annId, id, { one: 1, three: 3, __proto__: 4 })
    expect(store.get(annId, id)?.['inputRequests']).toEqual({ two: request })
    store.answer(annId, id, { two: 2 })
    await settled()
    expect(store.get(annId, id)).toMatchObject({
      status: 'completed',
      result: { content: [{ text: '{"one":1,"two":2}' }] },
    })
  })

  it('tells no more of an unexpected failure than that there was one', async () => {
    const { store } = open()
    const id = store.create(ann, () => Promise.reject(new Error('secret path')))!['taskId'] as string
    await settled()
    expect(JSON.stringify(store.get(annId, id))).not.toContain('secret')
    expect(store.get(annId, id)).toMatchObject({ status: 'failed', error: { code: -32603 } })
  })

  it('has room for so many of one caller, and forgets ended ones after their time', async () => {
    const { store, clock } = open()
    const create = () => store.create(ann, async () => done)
    const first = create()!['taskId'] as string
    for (let count = 1; count < limits.mcpTasksPerIdentityMax; count++) create()
    expect(create()).toBeUndefined()
    expect(store.create(bob, async () => done)).toBeDefined()
    await settled()
    clock.advance(limits.mcpTaskTtlMs)
    expect(store.get(annId, first)).toBeDefined()
    clock.advance(1)
    expect(create()).toBeDefined()
    expect(store.get(annId, first)).toBeUndefined()
  })

  it('is for clients that declare it in the request', () => {
    const key = 'io.modelcontextprotocol/clientCapabilities'
    const extension = 'io.modelcontextprotocol/tasks'
    expect(declaresTasks({ [key]: { extensions: { [extension]: {} } } })).toBe(true)
    for (const meta of [undefined, {}, { [key]: {} }, { [key]: { extensions: [] } }, { [key]: 5 }]) {
      expect(declaresTasks(meta)).toBe(false)
    }
  })
})

describe('a waiting call in a task', () => {
  const answerOf = (value: object): ToolAnswer => ({ json: JSON.stringify(value), output: value, isError: false })

  function hostOf(answers: readonly object[], onCall: (args: unknown) => void = () => {}): ToolHost {
    let at = 0
    return {
      list: () => [],
      async call(_caller, _name, args, options) {
        onCall(args)
        options?.progress?.({ progress: at, message: `step ${at}` })
        return answerOf(answers[Math.min(at++, answers.length - 1)]!)
      },
      onListChanged: () => () => {},
    }
  }

  async function wait(
    host: ToolHost,
    clock: ReturnType<typeof movableClock>,
    args: Record<string, unknown> = {},
    duration: CallDuration = 'waits',
  ) {
    const said: string[] = []
    const deps = {
      startCall: createStartCall({ host, logger: silentLogger, inFlight: createInFlightCalls(everPresent) }),
      lists: createToolLists(host),
      clock,
    }
    const { signal } = new AbortController()
    const handle = { signal, say: (text: string) => said.push(text), ask: () => Promise.reject(new Error('no')) }
    const request = { name: 'x.wait', args, duration, client: undefined, revision: '2026-07-28' }
    const result = await callInTask(deps, { inFlight: 0 }, ownerCaller, request, handle)
    return { result, said }
  }

  it('is made again until what it waits for is there', async () => {
    const again = { status: 'running', timed_out: true }
    const { result, said } = await wait(hostOf([again, again, { status: 'completed' }]), movableClock())
    expect(result.structuredContent).toEqual({ status: 'completed' })
    expect(said).toEqual(['step 0', 'step 1', 'step 2'])
  })

  it('is made once, as it was asked for, where it only takes long', async () => {
    const asked: unknown[] = []
    const late = { status: 'running', timed_out: true }
    const { result, said } = await wait(
      hostOf([late], (args) => asked.push(args)),
      movableClock(),
      { a: 1 },
      'long',
    )
    expect(result.structuredContent).toEqual(late)
    expect([asked, said]).toEqual([[{ a: 1 }], ['step 0']])
  })

  it('ends with the time that was asked for', async () => {
    const clock = movableClock()
    const asked: unknown[] = []
    const host = hostOf([{ status: 'running', timed_out: true }], (args) => {
      asked.push(args)
      clock.advance(45_000)
    })
    const { result } = await wait(host, clock, { execution_id: 'e', timeout_seconds: 100 })
    expect(result.structuredContent).toEqual({ status: 'running', timed_out: true })
    expect(asked).toEqual([100, 55, 10].map((timeout_seconds) => ({ execution_id: 'e', timeout_seconds })))
  })
})
