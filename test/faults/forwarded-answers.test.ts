import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { ForwardedAnswers } from '../../src/contract/forwarded-answers.ts'
import { limits } from '../../src/contract/limits.ts'
import { LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { randomId, systemRandom } from '../../src/kernel/random.ts'
import { createAnswerForwarding } from '../../src/mcp/forward-answers.ts'
import { createListedTasks } from '../../src/mcp/listed-tasks.ts'
import { createSharedTasks, shareTask } from '../../src/mcp/shared-tasks.ts'
import { createTaskStore, type TaskStore } from '../../src/mcp/task-store.ts'
import { sqlForwardedAnswers } from '../../src/stores/sql/forwarded-answer-store.ts'
import { sqlTaskDirectory } from '../../src/stores/sql/task-directory-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { sweepFaults } from '../support/fault-sweep.ts'
import { isLongRun } from '../support/long-run.ts'

/** Each look at the time takes a while, so that nobody waits long for who is not there. */
let spanMs = 0
let pollMs = 1_500
const clock = { nowMs: () => 1_000, monotonicMs: () => (spanMs += pollMs) }
const never = new AbortController().signal
const keyOf = (name: string): Principal => ({ ...localOwner, tier: 'user', kind: 'key', actor: name, keyId: name })

describe.each(dialects)('answers that are passed on over %s', (dialect) => {
  let database: Database
  let store: ForwardedAnswers
  beforeAll(async () => {
    database = await openEmpty(dialect)
    store = sqlForwardedAnswers(database)
  })
  afterAll(() => database.close())
  afterEach(() => installFaultPlan(undefined))
  const passing = () =>
    createAnswerForwarding({ answers: async () => store, clock, random: systemRandom, logger: silentLogger })

  it('are taken once, by the process that waits in their tenant, and are removed afterwards', async () => {
    const put = (keyHash: string, sender: string, atMs: number) =>
      store.put(LOCAL_TENANT, { keyHash, sender, answer: `of ${sender}` }, atMs)
    expect(await put('k', 'a', 1)).toBe(true)
    expect(await put('k', 'b', 1)).toBe(false)
    expect(await store.take(tenantId('other'), 'k', 2)).toBeUndefined()
    expect(await store.take(LOCAL_TENANT, 'k', 2)).toBe('of a')
    expect(await store.take(LOCAL_TENANT, 'k', 3)).toBeUndefined()
    expect(await store.touch(LOCAL_TENANT, 'k', 4)).toBe(true)
    expect(await store.find(LOCAL_TENANT, 'k', 'a')).toEqual({ takenAtMs: 4, notices: null, outcome: null })
    await store.tell(LOCAL_TENANT, 'k', 'half')
    expect(await store.find(LOCAL_TENANT, 'k', 'a')).toMatchObject({ notices: 'half', outcome: null })
    await store.finish(LOCAL_TENANT, 'k', 'done', 'all')
    expect(await store.find(LOCAL_TENANT, 'k', 'a')).toMatchObject({ notices: 'all', outcome: 'done' })
    // Another sender neither sees it nor takes it away, until nobody has fetched it for long.
    expect(await store.find(LOCAL_TENANT, 'k', 'b')).toBeUndefined()
    await store.remove(LOCAL_TENANT, 'k', 'b')
    expect(await put('k', 'b', 5)).toBe(false)
    expect(await put('k', 'b', 6 + limits.mcpPassedOutcomeMs)).toBe(true)
    // Old ones of any key are removed.
    expect(await put('l', 'c', 7 + limits.mcpPassedOutcomeMs + limits.mcpPassedAnswerMs)).toBe(true)
    expect(await store.find(LOCAL_TENANT, 'k', 'b')).toBeUndefined()
    await store.remove(LOCAL_TENANT, 'l', 'c')
    expect(await store.touch(LOCAL_TENANT, 'l', 7)).toBe(false)
  })

  it('bring what is said before the outcome, once and in order, and the newest of too much', async () => {
    pollMs = 10
    const heard: string[] = []
    const ended = new AbortController()
    const many = limits.mcpPassedNoticesMax + 10
    const first = Promise.withResolvers<void>()
    passing().receive(
      LOCAL_TENANT,
      'talks',
      async (_, __, notify) => {
        notify('first')
        notify('second')
        await first.promise
        for (let n = 0; n < many; n++) notify(String(n))
        return 'done'
      },
      ended.signal,
    )
    const hear = (notice: string) => {
      heard.push(notice)
      if (notice === 'second') first.resolve()
    }
    expect(await passing().send(LOCAL_TENANT, 'talks', 'x', never, hear)).toBe('done')
    expect(heard.slice(0, 2)).toEqual(['first', 'second'])
    expect(heard.slice(2)).toEqual(Array.from({ length: many }, (_, n) => String(n)).slice(-limits.mcpPassedNoticesMax))
    ended.abort()
    pollMs = 1_500
  })

  it('to nobody, and to one who is gone, are given up', async () => {
    expect(await passing().send(LOCAL_TENANT, 'nobody', 'x', never)).toBeUndefined()
    const sent = passing().send(LOCAL_TENANT, 'silent', 'x', never)
    const { promise, resolve } = Promise.withResolvers<string>()
    const ended = new AbortController()
    passing().receive(LOCAL_TENANT, 'silent', () => promise, ended.signal)
    expect(await sent).toBeUndefined()
    ended.abort()
    resolve('late')
  })

  it('reach the process that waits or are given up, whichever step fails', async () => {
    if (dialect === 'PostgreSQL' && !isLongRun) return
    let turn = 0
    await sweepFaults<string | undefined>({
      async prepare() {
        const key = `swept ${++turn}`
        return async () => {
          const ended = new AbortController()
          passing().receive(LOCAL_TENANT, key, async (answer) => `got ${answer}`, ended.signal)
          try {
            return await passing().send(LOCAL_TENANT, key, 'x', never)
          } finally {
            ended.abort()
          }
        }
      },
      async check(_, where, outcome) {
        expect(['got x', undefined], where).toContain(outcome)
        if (!where.includes('no fault')) return
        pollMs = 10
        const ended = new AbortController()
        passing().receive(LOCAL_TENANT, 'next', async (answer) => `then ${answer}`, ended.signal)
        expect(await passing().send(LOCAL_TENANT, 'next', 'y', never)).toBe('then y')
        ended.abort()
        pollMs = 1_500
      },
    })
  })
})

describe.each(dialects)('tasks of two processes over %s', (dialect) => {
  let database: Database
  let nowMs = 1_000
  const own = { nowMs: () => nowMs, monotonicMs: () => (spanMs += 10) }
  const ada = keyOf('ada')
  const bob = keyOf('bob')
  beforeAll(async () => {
    database = await openEmpty(dialect)
  })
  afterAll(() => database.close())
  afterEach(() => installFaultPlan(undefined))

  const killed = new Set<string>()
  function openProcess(name = randomId(systemRandom, 'process')) {
    const base = { clock: own, random: systemRandom, logger: silentLogger }
    const answers = sqlForwardedAnswers(database)
    let puts = 0
    const counting: ForwardedAnswers = {
      ...answers,
      put: (...args) => {
        puts++
        return answers.put(...args)
      },
    }
    const passing = createAnswerForwarding({ ...base, answers: async () => counting })
    const listed = createListedTasks({
      ...base,
      directory: async () => sqlTaskDirectory(database),
      processes: { own: name, hasEnded: (other) => killed.has(other) },
    })
    const others = { passing, listed }
    const store: TaskStore = createTaskStore({
      ...base,
      noteCreated: shareTask(others, () => store),
      noteChanged: listed.change,
    })
    return {
      tasks: createSharedTasks(store, others),
      puts: () => puts,
      async close() {
        store.close()
        await listed.close()
      },
    }
  }
  const forever = () => new Promise<never>(() => {})
  const idsOf = (rows: readonly Readonly<Record<string, unknown>>[]) => rows.map(({ taskId }) => taskId)

  it('are listed by both for their caller alone, and are gone with their process', async () => {
    const [one, two] = [openProcess(), openProcess()]
    const first = (await one.tasks.create(ada, forever))!['taskId'] as string
    nowMs += 10
    const second = (await two.tasks.create(ada, forever))!['taskId'] as string
    for (const { tasks } of [one, two]) {
      expect(idsOf(await tasks.list(ada))).toEqual([second, first])
      expect(await tasks.list(bob)).toEqual([])
    }
    expect(await one.tasks.get(bob, second, never)).toBeUndefined()
    expect(await one.tasks.cancel(ada, second, never)).toMatchObject({ hadEnded: false })
    await expect.poll(async () => (await one.tasks.list(ada))[0]).toMatchObject({ status: 'cancelled' })
    await two.close()
    expect(idsOf(await one.tasks.list(ada))).toEqual([first])
    // A killed process removes nothing, and says nothing any more.
    const three = openProcess()
    nowMs += limits.mcpTaskProcessSilentMs + 1
    expect(await three.tasks.list(ada)).toEqual([])
    expect(await three.tasks.get(ada, first, never)).toBeUndefined()
    await one.close()
    await three.close()
  })

  it('of a process that is known to have ended are lost at once, and nobody is asked', async () => {
    const [one, two] = [openProcess('one'), openProcess('two')]
    const id = (await one.tasks.create(ada, forever))!['taskId'] as string
    expect(idsOf(await two.tasks.list(ada))).toEqual([id])
    killed.add('one')
    expect(await two.tasks.get(ada, id, never)).toBeUndefined()
    expect(await two.tasks.list(ada)).toEqual([])
    expect(two.puts()).toBe(0)
    killed.clear()
    expect(await two.tasks.get(ada, id, never)).toMatchObject({ taskId: id })
    await one.close()
    await two.close()
  })

  it('that nobody has are refused without asking anybody', async () => {
    const one = openProcess()
    expect(await one.tasks.get(ada, 'task_none', never)).toBeUndefined()
    expect(await one.tasks.cancel(ada, 'task_none', never)).toBeUndefined()
    expect(await one.tasks.answer(ada, 'task_none', {}, never)).toBe(false)
    expect(one.puts()).toBe(0)
    await one.close()
  })

  it('are here at least, whichever write fails', async () => {
    if (dialect === 'PostgreSQL' && !isLongRun) return
    await sweepFaults<string | undefined>({
      async prepare() {
        const one = openProcess()
        return async () => {
          const created = await one.tasks.create(ada, async () => ({ content: [] }))
          const id = created!['taskId'] as string
          const found = await one.tasks.get(ada, id, never)
          await one.close()
          return found === undefined ? undefined : id
        }
      },
      async check(_, where, outcome) {
        expect(outcome, where).toBeDefined()
      },
    })
  })
})
