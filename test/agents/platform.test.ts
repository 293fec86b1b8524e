import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkAgentManifest } from '../../src/domains/agents/manifest.ts'
import { compileJsonSchema } from '../../src/domains/manifests/json-schema.ts'
import { createRuntimeRegistry } from '../../src/domains/platform/runtimes.ts'
import { openTestApp, type TestApp } from '../support/app.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
})
afterEach(() => app[Symbol.asyncDispose]())

const minimal =
  'apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {name: a, version: "1.0.0"}\nspec: {runtime: {image: a/b}, task: {instruction: Go.}}\n'

describe('schemas', () => {
  it('are given for both kinds, and compile', async () => {
    for (const key of ['agent/manifest/v1', 'workflow/manifest/v1']) {
      expect(compileJsonSchema(await app.ask('aegis.schema.get', { key })).ok).toBe(true)
    }
    expect((await app.refusal('aegis.schema.get', { key: 'other' })).code).toBe('ERR_INVALID_INPUT')
  })

  it('validate as documented', async () => {
    const validate = (manifest_yaml: string) => app.ask('aegis.schema.validate', { kind: 'agent', manifest_yaml })
    const noModel = expect.stringMatching(/^No language model is configured/)
    expect(await validate(minimal)).toEqual({ valid: true, errors: null, warnings: [noModel] })
    expect(await validate(minimal.replace('image: a/b', 'language: python'))).toEqual({
      valid: false,
      errors: [expect.stringMatching(/^spec\.runtime\.version is required/)],
      warnings: [],
    })
    expect(await validate(': nonsense [')).toMatchObject({ valid: false })
    expect(await app.ask('aegis.schema.validate', { kind: 'workflow', manifest_yaml: minimal })).toMatchObject({
      valid: false,
    })
  })

  it('name a missing argument in the words of the document', async () => {
    const refused = await app.refusal('aegis.schema.validate', { kind: 'agent', manifest_yaml: null })
    expect(refused.message).toContain(
      "required field 'manifest_yaml' is missing or null for tool 'aegis.schema.validate'",
    )
  })
})

/** Whether no judge looks at the calls of a tool: as the document lists it. */
const unjudged = `
  fs.read fs.list fs.grep fs.glob web.search web.fetch aegis.agent.list aegis.agent.search aegis.workflow.list
  aegis.workflow.search aegis.schema.get aegis.schema.validate aegis.agent.export aegis.workflow.export
  aegis.agent.create aegis.agent.update aegis.agent.delete aegis.workflow.create aegis.workflow.update
  aegis.workflow.executions.list aegis.task.status aegis.task.wait aegis.task.list aegis.task.logs
  aegis.workflow.logs aegis.workflow.executions.get aegis.workflow.status aegis.agent.logs aegis.agent.wait
  aegis.workflow.wait aegis.execute.wait aegis.workflow.cancel aegis.workflow.signal aegis.workflow.remove
  aegis.workflow.validate aegis.execute.status aegis.tools.list aegis.tools.search aegis.system.info
  aegis.system.config aegis.runtime.list
`
const judged = `
  cmd.run fs.write fs.edit fs.multi_edit fs.create_dir fs.create.dir fs.delete aegis.agent.generate
  aegis.workflow.delete aegis.workflow.run aegis.workflow.generate aegis.task.execute aegis.task.cancel
  aegis.task.remove aegis.workflow.promote aegis.workflow.demote aegis.execute.intent
`
const wordsOf = (text: string): string[] => text.trim().split(/\s+/)

describe('tools', () => {
  type Tools = Readonly<{ tools: readonly { name: string; source: string; skip_judge: boolean }[]; total: number }>

  it('are judged by default as the document says', async () => {
    const { tools } = await app.ask<Tools>('aegis.tools.list')
    const displayed = new Map(tools.map(({ name, skip_judge }) => [name, skip_judge]))
    const listed = [...wordsOf(unjudged), ...wordsOf(judged)]
    expect(new Set(listed).size).toBe(58)
    expect(listed.filter((name) => displayed.get(name) !== wordsOf(unjudged).includes(name))).toEqual([])
  })

  it('are shown to be judged as the configuration says', async () => {
    await using other = await openTestApp({
      config: { 'judging.skip': ['fs.write'], 'judging.always': ['fs.read'] },
    })
    const { tools } = await other.ask<Tools>('aegis.tools.search', { query: 'fs.' })
    const displayed = new Map(tools.map(({ name, skip_judge }) => [name, skip_judge]))
    expect(['fs.write', 'fs.read', 'fs.list'].map((name) => displayed.get(name))).toEqual([true, false, true])
  })

  it('are all that the caller may use, counted', async () => {
    const mine = await app.ask<Tools>('aegis.tools.list')
    expect(mine.total).toBe(mine.tools.length)
    expect(mine.tools).toContainEqual(
      expect.objectContaining({ name: 'aegis.agent.delete', source: 'builtin', skip_judge: true }),
    )
    const user = await app.keyCaller({ role: 'member', tier: 'user' })
    const theirs = (await app.ask<Tools>('aegis.tools.list', {}, user)).tools.map(({ name }) => name)
    expect(theirs).toContain('aegis.agent.list')
    expect(theirs).not.toContain('aegis.agent.delete')
  })

  it('are found by words, by name and by pattern', async () => {
    const find = async (query?: string) =>
      (await app.ask<Tools>('aegis.tools.search', { query })).tools.map(({ name }) => name)
    expect(await find('aegis.agent.list')).toEqual(['aegis.agent.list'])
    expect(await find('aegis.schema.*')).toEqual(['aegis.schema.get', 'aegis.schema.validate'])
    expect((await find('deploy an agent from a manifest')).slice(0, 3)).toContain('aegis.agent.create')
    expect((await find('please stop a run that hangs')).slice(0, 3)).toContain('aegis.task.cancel')
    expect(await find('zzz')).toEqual([])
    expect(await find()).toHaveLength((await app.ask<Tools>('aegis.tools.list')).total)
  })
})

describe('groups of tools', () => {
  type Tools = Readonly<{ tools: readonly { name: string; category: string; tags: string[] }[]; total: number }>
  const names = async (tool: string, args: object) => (await app.ask<Tools>(tool, args)).tools.map(({ name }) => name)

  it.each([
    [{ category: 'schema' }, ['aegis.schema.get', 'aegis.schema.validate']],
    [{ category: 'dispatch', source: 'builtin' }, ['cmd.run']],
    [{ category: 'Web', tags: ['read-only'] }, ['web.fetch', 'web.search']],
    [{ category: 'fs', tags: ['judged', 'idempotent'] }, ['fs.create.dir', 'fs.create_dir', 'fs.write']],
  ])('are listed and searched by %j', async (filters, expected) => {
    expect((await names('aegis.tools.list', filters)).sort()).toEqual(expected)
    expect((await names('aegis.tools.search', filters)).sort()).toEqual(expected)
  })

  it('are ranked as search_tools ranks them', async () => {
    const query = 'write text into a file'
    const { tools } = await app.ask<{ tools: readonly { toolName: string }[] }>('search_tools', { query, limit: 5 })
    const found = await names('aegis.tools.search', { query, limit: 5 })
    expect(found).toEqual(tools.map(({ toolName }) => toolName))
    const { total } = await app.ask<Tools>('aegis.tools.search', { query, limit: 5 })
    expect(total).toBeGreaterThan(5)
    const inCategory = await app.ask<Tools>('aegis.tools.search', { query, category: 'fs' })
    expect(inCategory.tools.every(({ name }) => name.startsWith('fs.'))).toBe(true)
    expect(inCategory.total).toBe(inCategory.tools.length)
  })

  it('come page by page, and narrow a search', async () => {
    const all = await app.ask<Tools>('aegis.tools.list')
    const page = await app.ask<Tools>('aegis.tools.list', { limit: 2, offset: 1 })
    expect(page).toMatchObject({ total: all.total, tools: all.tools.slice(1, 3) })
    expect(await names('aegis.tools.search', { query: '*wait*', category: 'task' })).toEqual(['aegis.task.wait'])
  })

  it.each([
    ['source', 'github', 'Accepted: builtin.'],
    ['category', 'worklfow', "Did you mean 'workflow'?"],
    ['tags', ['readonly'], "Did you mean 'read-only'?"],
  ])('say that there is no %s %j', async (field, value, advice) => {
    const { code, message, details } = await app.refusal('aegis.tools.list', { [field]: value })
    expect({ code, field: details['field'] }).toEqual({ code: 'ERR_INVALID_INPUT', field })
    expect(message).toContain(advice)
  })
})

describe('the system', () => {
  it('is described to operators only', async () => {
    expect(await app.ask('aegis.system.info')).toMatchObject({ version: '0.0.0-test', status: 'healthy' })
    const system = await app.keyCaller({ role: 'admin', tier: 'system' })
    for (const tool of ['aegis.system.info', 'aegis.system.config']) {
      expect((await app.refusal(tool, {}, system)).code).toBe('ERR_PERMISSION_DENIED')
    }
  })

  it('shows no secret', async () => {
    const secret = 'sk-very-secret-4711'
    await using other = await openTestApp({
      config: { 'search.embeddings.url': 'http://127.0.0.1:2', 'search.embeddings.api_key': secret },
    })
    const { content_yaml } = await other.ask<{ content_yaml: string }>('aegis.system.config')
    expect(content_yaml).toContain('api_key: "[redacted]"')
    expect(content_yaml).not.toContain(secret)
  })
})

describe('runtimes', () => {
  const registry = createRuntimeRegistry({
    hostVersions: async () => ({ python: '3.11.2', javascript: '20.20.2', bash: '5.2.15' }),
    images: async () => ['host', 'go-1.21', 'judge-base-2'],
  })

  it('are the standard ones and those of the machine, by language and number', async () => {
    const rows = await registry.list()
    expect(rows.map(({ language, version }) => `${language} ${version}`)).toEqual([
      'bash 5.2',
      'go 1.20',
      'go 1.21',
      'javascript 18',
      'javascript 20',
      'python 3.9',
      'python 3.10',
      'python 3.11',
      'rust 1.74',
      'rust 1.75',
      'typescript 5.1',
    ])
    expect(
      rows
        .filter(({ resolvedImage }) => resolvedImage !== null)
        .map(({ image, resolvedImage }) => [image, resolvedImage]),
    ).toEqual([
      ['castellan/host', 'host'],
      ['golang:1.21-alpine', 'go-1.21'],
      ['node:20-alpine', 'host'],
      ['python:3.11-slim', 'host'],
    ])
    expect(rows.find(({ version }) => version === '3.9')).toMatchObject({
      deprecated: true,
      reason: expect.stringContaining('3.11.2'),
    })
  })

  it('are resolved to images of workspaces, or refused by name', async () => {
    const resolve = (language: string | null, version: string | null, image: string | null = null) =>
      registry.resolve({ language, version, image })
    expect(await resolve('python', '3.11')).toBe('host')
    expect(await resolve(null, null, 'castellan/host')).toBe('host')
    expect(await resolve(null, null, 'ghcr.io/example/judge-base:2')).toBe('judge-base-2')
    for (const refused of [
      resolve('python', '3.9'),
      resolve('cobol', '1'),
      resolve(null, null, 'castellan/none'),
      resolve(null, null, 'a/b'),
    ]) {
      await expect(refused).rejects.toMatchObject({ code: 'ERR_CAPABILITY_MISSING' })
    }
  })

  it('are listed by the tool, one language if asked', async () => {
    const { runtimes } = await app.ask<{ runtimes: Record<string, unknown>[] }>('aegis.runtime.list', {
      language: 'rust',
    })
    expect(runtimes).toHaveLength(2)
    expect(runtimes[0]).toMatchObject({
      language: 'rust',
      version: '1.74',
      image: 'rust:1.74-alpine',
      deprecated: false,
    })
  })
})

describe('templates that come with the program', () => {
  const folder = new URL('../../templates/agents/', import.meta.url)
  it.each(readdirSync(folder))('%s is valid without a warning and named like its file', (file) => {
    const checked = checkAgentManifest(readFileSync(new URL(file, folder), 'utf8'))
    expect(checked).toMatchObject({ ok: true, warnings: [] })
    expect(checked.ok && `${checked.manifest.name}.yaml`).toBe(file)
  })
})

describe('an execution', () => {
  it('of a runtime that cannot be run here is refused by name', async () => {
    const yaml = minimal.replace('Go.}', 'Go.}, tools: [fs.read]')
    await app.ask('aegis.agent.create', { manifest_yaml: yaml })
    const { execution_id } = await app.ask<{ execution_id: string }>('aegis.task.execute', {
      agent_id: 'a',
      intent: 'x',
    })
    const ended = await app.ask<{ status: string; last_error: unknown }>('aegis.task.wait', { execution_id })
    expect(ended.status).toBe('failed')
    expect(JSON.stringify(ended.last_error)).toContain('aegis.runtime.list')
  })
})
