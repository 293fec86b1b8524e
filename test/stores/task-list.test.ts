import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { Task, TaskFilter, TaskPage } from '../../src/domains/tasks/ports.ts'
import { searchWords, taskPriorities, taskStatuses } from '../../src/domains/tasks/rules.ts'
import { sqlTaskStore as store } from '../../src/stores/sql/task-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { ACME, addTask, addTasks, NOW, OTHER, type TaskDraft } from '../support/sample-tasks.ts'

const firstPage = { limit: 500, offset: 0, sortBy: 'created', sortOrder: 'asc' } as const satisfies TaskPage

describe.each(dialects)('the list of tasks in %s', (dialect) => {
  let database: Database
  let all: Task[]

  beforeAll(async () => {
    database = await openEmpty(dialect)
    const drafts = Array.from({ length: 60 }, (_, index): TaskDraft => {
      const project = index % 3 === 0 ? 'beta' : 'alpha'
      return {
        project,
        status: taskStatuses[index % taskStatuses.length]!,
        priority: taskPriorities[(index * 3) % taskPriorities.length]!,
        progress: (index * 37) % 101,
        assignee: index % 4 === 0 ? 'ann' : 'Ann',
        labels: index % 5 === 0 ? ['x', 'y'] : ['y'],
        createdAtMs: NOW + Math.floor(index / 2),
        updatedAtMs: NOW + ((index * 17) % 23),
      }
    })
    all = await addTasks(database, ACME, drafts)
    await addTasks(database, OTHER, drafts)
  })
  afterAll(() => database.close())

  const sortKeys: Record<TaskPage['sortBy'], (task: Task) => number> = {
    created: (task) => task.createdAtMs,
    updated: (task) => task.updatedAtMs,
    priority: (task) => taskPriorities.indexOf(task.priority),
    progress: (task) => task.progress,
  }

  function expected(filter: TaskFilter, page: TaskPage): number[] {
    const direction = page.sortOrder === 'asc' ? 1 : -1
    const key = sortKeys[page.sortBy]
    return all
      .filter((task) => matches(task, filter))
      .sort((a, b) => direction * (key(a) - key(b) || a.number - b.number))
      .slice(page.offset, page.offset + page.limit)
      .map((task) => task.number)
  }

  it('agrees with a plain filter and sort for any filter and any page', async () => {
    const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
    const filters = fc.record({
      project: optional(fc.constantFrom('alpha', 'beta', 'none')),
      status: optional(fc.array(fc.constantFrom(...taskStatuses), { minLength: 1, maxLength: 8 })),
      priority: optional(fc.array(fc.constantFrom(...taskPriorities), { minLength: 1, maxLength: 5 })),
      assignee: optional(fc.constantFrom('ann', 'Ann', 'ANN')),
      label: optional(fc.constantFrom('x', 'y', 'z')),
      createdAfterMs: optional(fc.integer({ min: NOW - 1, max: NOW + 31 })),
      createdBeforeMs: optional(fc.integer({ min: NOW - 1, max: NOW + 31 })),
    })
    const pages = fc.record({
      limit: fc.integer({ min: 1, max: 70 }),
      offset: fc.integer({ min: 0, max: 70 }),
      sortBy: fc.constantFrom('created', 'updated', 'priority', 'progress'),
      sortOrder: fc.constantFrom('asc', 'desc'),
    })
    await fc.assert(
      fc.asyncProperty(filters, pages, async (input, page) => {
        const filter = Object.fromEntries(
          Object.entries(input).filter(([, value]) => value !== undefined),
        ) as TaskFilter
        const listed = await store.listTasks(database.read, ACME, filter, page as TaskPage)
        expect(listed.map((task) => task.number)).toEqual(expected(filter, page as TaskPage))
        expect(await store.countTasks(database.read, ACME, filter)).toBe(expected(filter, firstPage).length)
      }),
      { numRuns: 150 },
    )
  })

  it('gives the fields of a summary', async () => {
    const [first] = await store.listTasks(database.read, ACME, {}, { ...firstPage, limit: 1 })
    const { number, title, project, status, priority, progress, assignee, createdAtMs, updatedAtMs } = all[0]!
    expect(first).toEqual({ number, title, project, status, priority, progress, assignee, createdAtMs, updatedAtMs })
  })

  it('sorts by the meaning of a priority, not by its spelling', async () => {
    const page = { ...firstPage, sortBy: 'priority', sortOrder: 'desc' } as const
    const listed = await store.listTasks(database.read, ACME, {}, page)
    expect([...new Set(listed.map((task) => task.priority))]).toEqual(['critical', 'high', 'normal', 'low'])
  })
})

function matches(task: Task, filter: TaskFilter): boolean {
  return (
    (filter.project === undefined || task.project === filter.project) &&
    (filter.status === undefined || filter.status.includes(task.status)) &&
    (filter.priority === undefined || filter.priority.includes(task.priority)) &&
    (filter.assignee === undefined || task.assignee === filter.assignee) &&
    (filter.label === undefined || task.labels.includes(filter.label)) &&
    (filter.createdAfterMs === undefined || task.createdAtMs > filter.createdAfterMs) &&
    (filter.createdBeforeMs === undefined || task.createdAtMs < filter.createdBeforeMs)
  )
}

describe.each(dialects)('search in %s', (dialect) => {
  let database: Database
  const find = async (...words: string[]) =>
    (await store.listTasks(database.read, ACME, { words }, firstPage)).map((task) => task.title)

  beforeAll(async () => {
    database = await openEmpty(dialect)
    const texts: [title: string, description: string][] = [
      ['Running the migrations', 'They were tested twice.'],
      ['Café menu', 'Crème brûlée für Ärzte'],
      ['Задача', 'Проверить журнал'],
      ['日本語 の 題名', ''],
      ['हिन्दी कार्य', ''],
      ['Fix src/stores/sql.ts', 'see https://example.com/help_page?x=why#anchor, mail bob@corp.example'],
      ['The who', 'to be or not to be'],
      ['v1.2.3 costs 1e5', 'item 42, x2'],
      ["Don't panic", '“Quoted” — dashed–words…'],
      ['AND', 'NEAR the OR of NOT'],
    ]
    await addTasks(
      database,
      ACME,
      texts.map(([title, description]) => ({ title, description })),
    )
    await addTask(database, OTHER, { title: 'Running elsewhere' })
  })
  afterAll(() => database.close())

  it('finds a word in any grammatical form, in title and description', async () => {
    for (const words of [['run'], ['runs'], ['migration'], ['MIGRATED'], ['test'], ['testing', 'run']]) {
      expect(await find(...words), words.join(' ')).toEqual(['Running the migrations'])
    }
    expect(await find('run', 'menu')).toEqual([])
    expect(await find('elsewhere')).toEqual([])
  })

  it('finds words of any script, whatever their case and accents', async () => {
    for (const word of ['café', 'CAFE', 'creme', 'brûlée', 'BRULEE', 'ärzte', 'ARZTE', 'cafe\u0301']) {
      expect(await find(word), word).toEqual(['Café menu'])
    }
    expect(await find('ЗАДАЧА')).toEqual(['Задача'])
    expect(await find('журнал')).toEqual(['Задача'])
    expect(await find('日本語', '題名')).toEqual(['日本語 の 題名'])
    expect(await find('हिन्दी')).toEqual(['हिन्दी कार्य'])
  })

  it('finds words inside paths, addresses and versions, and the very common ones', async () => {
    for (const word of ['stores', 'sql', 'example', 'help', 'page', 'anchor', 'bob', 'corp']) {
      expect(await find(word), word).toEqual(['Fix src/stores/sql.ts'])
    }
    for (const word of ['v1', '3', '1e5', '42', 'x2']) expect(await find(word), word).toEqual(['v1.2.3 costs 1e5'])
    expect(await find('who')).toEqual(['The who'])
    expect(await find('to', 'be', 'or', 'not')).toEqual(['The who'])
    expect(await find('quoted', 'dashed', 'words')).toEqual(["Don't panic"])
    expect(await find(...searchWords("don't"))).toEqual(["Don't panic"])
    expect(await find('AND')).toEqual(['AND'])
    expect(await find('NEAR', 'OR', 'NOT')).toEqual(['AND'])
  })

  it('takes operators, quotes and marks in the words as plain text', async () => {
    const hostile = [
      '"',
      '""',
      '*',
      'run*',
      'title:run',
      '-run',
      '^run',
      'run OR menu',
      '(',
      'a"b',
      "'",
      '\\',
      '%',
      '&',
      '!',
      ':*',
    ]
    for (const word of [...hostile, '\u0301', '\u{10ffff}', 'x'.repeat(5000)]) {
      for (const words of [[word], [word, 'run']]) {
        const found = await find(...words)
        expect(
          found.every((title) => title === 'Running the migrations'),
          word,
        ).toBe(true)
      }
    }
    expect(await find('run OR menu')).toEqual([])
  })

  it('never fails and finds a text by each of its own words', async () => {
    const plain = fc.string({ unit: 'grapheme', maxLength: 40 }).filter((text) => !text.includes('\u0000'))
    await fc.assert(
      fc.asyncProperty(plain, async (text) => {
        const words = searchWords(text)
        fc.pre(words.length > 0)
        await store.countTasks(database.read, ACME, { words })
      }),
      { numRuns: 200 },
    )
    const written = fc.array(fc.constantFrom('Alpha', 'tésting', '中文', 'x-1', 'a_b', 'ЖУК', 'q.r', '«z»'), {
      minLength: 1,
      maxLength: 6,
    })
    await fc.assert(
      fc.asyncProperty(written, async (parts) => {
        const { number } = await addTask(database, OTHER, { title: parts.join(' ') })
        for (const word of searchWords(parts.join(' '))) {
          const found = await store.listTasks(database.read, OTHER, { words: [word] }, firstPage)
          expect(
            found.map((task) => task.number),
            word,
          ).toContain(number)
        }
      }),
      { numRuns: 25 },
    )
  })
})
