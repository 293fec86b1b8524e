import { existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadAllTools } from '../../src/tools/index.ts'
import { allRulesOf } from '../../src/tools/runtime/call-rules.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { newTask } from '../support/ledger.ts'

const allTools = await loadAllTools()

/** As on standard input, where there is no switching of modes. */
const catalog = createCatalog({ ...allTools, modes: [] })
const namesIn = async (app: TestApp): Promise<string[]> =>
  (await app.app.host.list(ownerCaller)).map((tool) => tool.name)
const inMode = (mode: string, dataDir?: string) =>
  openTestApp({ config: { mode }, ...(dataDir === undefined ? {} : { dataDir }) })

describe('mode FULL', () => {
  it('has all tools', async () => {
    await using app = await inMode('FULL')
    expect(await namesIn(app)).toEqual(catalog.names)
    expect(await app.ask('server_health')).toMatchObject({ mode: 'FULL', status: 'ok' })
  })
})

describe('mode READONLY', () => {
  it('has the tools that read and refuses the others, and records that', async () => {
    const before = await inMode('FULL')
    await newTask(before)
    await before.stop()
    await using app = await inMode('READONLY', before.dataDir)
    const reading = catalog.tools.filter(
      ({ definition }) =>
        allRulesOf(definition).some(({ effect }) => effect === 'read') || definition.redirects === true,
    )
    expect(await namesIn(app)).toEqual(reading.map(({ name }) => name))
    expect(await app.ask('task_get', { task_id: 'T-0001' })).toMatchObject({ title: 'a task' })
    expect(await app.ask('server_health')).toMatchObject({ mode: 'READONLY', db: { open: true } })
    for (const { name } of catalog.tools.filter((tool) => !reading.includes(tool))) {
      expect(await app.refusal(name)).toMatchObject({ code: 'ERR_MODE_REFUSED', details: { mode: 'READONLY' } })
      expect((await app.log()).at(-1)).toMatchObject({ tool: name, outcome: 'refused', code: 'ERR_MODE_REFUSED' })
    }
    expect(await app.ask('task_list')).toMatchObject({ total_count: 1 })
  })

  it('has of a tool the actions that read', async () => {
    await using app = await inMode('READONLY')
    expect(await app.ask('vault', { action: 'list' })).toMatchObject({ count: 0 })
    expect(await app.ask('team', { action: 'list' })).toMatchObject({ count: 0 })
    for (const [name, args] of [
      ['vault', { action: 'write', path: 'a.md', content: 'x' }],
      ['team', { action: 'receive', name: 't', agent: 'a' }],
      ['team', { action: 'none' }],
    ] as const) {
      expect((await app.refusal(name, args)).code).toBe('ERR_MODE_REFUSED')
    }
    const { message } = await app.refusal('team', { action: 'destroy', name: 't' })
    expect(message).toContain("'team' with the action 'destroy'")
  })

  it('runs by another tool what reads, and nothing else', async () => {
    await using app = await inMode('READONLY')
    expect(await app.ask('run_tool', { tool_name: 'task_list' })).toMatchObject({ total_count: 0 })
    const request = { tool_name: 'task_create', tool_args: { title: 't', project: 'p' } }
    expect((await app.refusal('run_tool', request)).code).toBe('ERR_MODE_REFUSED')
    const { tools } = await app.ask<{ tools: { toolName: string }[] }>('search_tools', { query: 'create task' })
    expect(tools.map(({ toolName }) => toolName)).not.toContain('task_create')
  })
})

describe('mode TEST', () => {
  it('has all tools on a store of its own, and leaves nothing behind', async () => {
    const before = await inMode('FULL')
    await newTask(before)
    await before.stop()
    const files = readdirSync(before.dataDir, { recursive: true }).sort()
    const app = await inMode('TEST', before.dataDir)
    expect(await namesIn(app)).toEqual(catalog.names)
    expect(await app.ask('task_list')).toMatchObject({ total_count: 0 })
    await newTask(app)
    const { db } = await app.ask<{ db: { path: string } }>('server_health')
    expect(existsSync(db.path)).toBe(true)
    expect(db.path.startsWith(before.dataDir)).toBe(false)
    await app.stop()
    expect(existsSync(db.path)).toBe(false)
    expect(readdirSync(before.dataDir, { recursive: true }).sort()).toEqual(files)
    await using again = await inMode('FULL', before.dataDir)
    expect(await again.ask('task_list')).toMatchObject({ total_count: 1 })
  })
})

describe('mode MINIMAL', () => {
  it('answers ping and health without any store, and refuses the rest', async () => {
    await using app = await inMode('MINIMAL', mkdtempSync(join(tmpdir(), 'castellan-minimal-')))
    expect(await namesIn(app)).toEqual(['server_health', 'server_ping'])
    expect(await app.ask('server_ping')).toMatchObject({ ok: true })
    expect(await app.ask('server_health')).toMatchObject({
      mode: 'MINIMAL',
      db: { open: false, user_version: 0, path: '' },
    })
    for (const { name, definition } of catalog.tools) {
      if (definition.minimal === true) continue
      const args = definition.redirects !== true ? {} : { tool_name: 'task_list' }
      expect((await app.refusal(name, args)).code, name).toBe('ERR_MODE_REFUSED')
    }
    expect(await app.ask('run_tool', { tool_name: 'server_ping' })).toMatchObject({ ok: true })
    expect(readdirSync(app.dataDir)).toEqual([])
  })
})
