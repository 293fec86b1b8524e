import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { newDataDir } from '../support/real-server.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
})
afterEach(() => app[Symbol.asyncDispose]())

type Deployed = Readonly<{ agent_id: string; deployed: boolean; version: string; status?: string; hint?: string }>
type Listed = Readonly<{ agents: readonly Record<string, unknown>[]; total: number }>

const manifest = (name: string, version: string, spec = '', description = `What ${name} ${version} does.`) => `# mine
apiVersion: 100monkeys.ai/v1
kind: Agent
metadata: { name: ${name}, version: "${version}", description: "${description}", labels: { team: docs } }
spec:
  runtime: { language: python, version: "3.11" }
  task: { instruction: Do it. }
  ${spec}
`
const create = (yaml: string, more: object = {}, caller?: ToolCaller) =>
  app.ask<Deployed>('aegis.agent.create', { manifest_yaml: yaml, ...more }, caller)
const versionOf = async (name: string, caller?: ToolCaller) =>
  (await app.ask<{ version: string }>('aegis.agent.export', { name }, caller)).version

describe('deploying', () => {
  it('answers as documented, and gives the manifest back to the letter', async () => {
    const yaml = manifest('writer', '1.0.0')
    const made = await create(yaml)
    expect(made).toEqual({
      agent_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      deployed: true,
      name: 'writer',
      version: '1.0.0',
    })
    expect(await app.ask('aegis.agent.export', { name: 'writer' })).toEqual({
      manifest_yaml: yaml,
      id: made.agent_id,
      name: 'writer',
      version: '1.0.0',
    })
    const { agents } = await app.ask<Listed>('aegis.agent.list')
    expect(agents).toEqual([
      {
        id: made.agent_id,
        name: 'writer',
        version: '1.0.0',
        status: 'active',
        description: 'What writer 1.0.0 does.',
        labels: { team: 'docs' },
        scope: 'tenant',
      },
    ])
  })

  it('tells when it runs by itself, and next, until that is switched off', async () => {
    const timed = (version: string, more = '') =>
      manifest('clock', version, `schedule: { type: cron, cron: "0 9 * * 1", timezone: Asia/Tokyo${more} }`)
    const schedule = {
      type: 'cron',
      cron: '0 9 * * 1',
      timezone: 'Asia/Tokyo',
      next_run_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00\.000Z$/),
    }
    expect(await create(timed('1.0.0'))).toMatchObject({ deployed: true, schedule })
    expect(await app.ask('agent_info', { agent_id: 'clock' })).toMatchObject({ schedule })
    expect(await create(timed('1.1.0', ', enabled: false'))).not.toHaveProperty('schedule')
    expect(await app.ask('agent_info', { agent_id: 'clock' })).toMatchObject({ schedule: null })
    expect(await create(manifest('beat', '1.0.0', 'schedule: { type: interval, seconds: 90 }'))).toMatchObject({
      schedule: { type: 'interval', seconds: 90, next_run_at: expect.any(String) },
    })
  })

  it.each([
    ['{ type: interval, seconds: 9 }', 9],
    ['{ type: cron, cron: "*/5 * * * * *", timezone: UTC }', 5],
    ['{ type: cron, cron: "0,3 0 12 * * *", timezone: UTC }', 3],
  ])('refuses the schedule %s, which runs too often', async (schedule, seconds) => {
    const refused = await app.refusal('aegis.agent.create', {
      manifest_yaml: manifest('hasty', '1.0.0', `schedule: ${schedule}`),
    })
    expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'spec.schedule' } })
    expect(refused.message).toContain(`at least 10 s apart, but two of them are ${seconds} s apart`)
    expect((await app.refusal('agent_info', { agent_id: 'hasty' })).code).toBe('ERR_AGENT_NOT_FOUND')
  })

  it('names the agent that it did not find, cut and without what would break a line', async () => {
    for (const [tool, args] of [
      ['agent_info', { agent_id: 'nobody' }],
      ['aegis.agent.export', { name: 'nobody' }],
      ['aegis.agent.delete', { agent_id: 'nobody' }],
      ['aegis.agent.logs', { agent_id: 'nobody' }],
      ['aegis.task.execute', { agent_id: 'nobody' }],
      ['aegis.task.execute', { agent: 'nobody' }],
    ] as const) {
      const refused = await app.refusal(tool, args)
      expect([tool, refused]).toMatchObject([tool, { code: 'ERR_AGENT_NOT_FOUND', details: { agent: 'nobody' } }])
      expect(refused.message).toContain("No such agent: 'nobody'.")
    }
    const long = await app.refusal('agent_info', { agent_id: 'x'.repeat(200) })
    expect(long.message).not.toContain('x'.repeat(65))
  })

  it('takes a schedule only with an input that its executions can start with', async () => {
    const schema = 'input_schema: { type: object, required: [n] }'
    const timed = (schedule: string) =>
      manifest('timed', '1.0.0', `${schema}\n  schedule: { type: interval, seconds: 3600${schedule} }`)
    const yaml = timed('')
    const refused = await app.refusal('aegis.agent.create', { manifest_yaml: yaml })
    expect(refused).toMatchObject({ code: 'ERR_MANIFEST_INVALID' })
    expect(refused.message).toContain('spec.schedule.input does not conform to spec.input_schema')
    expect(await app.ask('aegis.schema.validate', { kind: 'agent', manifest_yaml: yaml })).toMatchObject({
      valid: false,
      errors: [expect.stringContaining('spec.schedule.input')],
    })
    for (const input of [', enabled: false', ', input: { n: 1 }']) {
      expect(await create(timed(input), { force: true })).toMatchObject({ deployed: true })
    }
  })

  it('takes an output handler only with a tool that there is and that the agent has', async () => {
    const handler = (tool: string, tools = '') =>
      manifest('handed', '1.0.0', `output_handler: { type: mcp_tool, tool_name: ${tool} }${tools}`)
    const refusal = async (yaml: string) => {
      const refused = await app.refusal('aegis.agent.create', { manifest_yaml: yaml })
      const { errors } = await app.ask<{ errors: string[] }>('aegis.schema.validate', {
        kind: 'agent',
        manifest_yaml: yaml,
      })
      expect(errors).toEqual([refused.message])
      return refused
    }
    expect(await refusal(handler('fs.wrote'))).toMatchObject({
      code: 'ERR_MANIFEST_INVALID',
      message: "spec.output_handler.tool_name: there is no tool 'fs.wrote'. Did you mean fs.write?",
    })
    expect((await refusal(handler('fs.write'))).message).toMatch(/^spec\.output_handler\.tool_name: .*spec\.tools/)
    expect((await refusal(manifest('a', '1.0.0', 'tools: ["mcp:github"]'))).message).toContain('other MCP servers')
    expect(await create(handler('fs.write', '\n  tools: ["fs.*"]'))).toMatchObject({ deployed: true })
  })

  it('takes the names of tools and beginnings such as fs.*, but not all tools at once', async () => {
    expect(await create(manifest('reader', '1.0.0', 'tools: ["fs.*", web.fetch]'))).toMatchObject({ deployed: true })
    const refused = await app.refusal('aegis.agent.create', { manifest_yaml: manifest('all', '1.0.0', 'tools: ["*"]') })
    expect(refused).toMatchObject({ code: 'ERR_MANIFEST_INVALID', details: { unknown_tools: ['*'] } })
  })

  it('keeps versions side by side, and the highest release is the latest', async () => {
    const { agent_id } = await create(manifest('writer', '1.2.0'))
    for (const version of ['1.10.0', '1.9.0', '2.0.0-rc.1']) {
      expect((await create(manifest('writer', version))).agent_id).toBe(agent_id)
    }
    expect(await versionOf('writer')).toBe('1.10.0')
    const { agents } = await app.ask<Listed>('aegis.agent.list')
    expect(agents).toMatchObject([{ version: '1.10.0', description: 'What writer 1.10.0 does.' }])
    const old = await app.ask('aegis.agent.export', { name: 'writer', version: '1.2.0' })
    expect(old).toMatchObject({ manifest_yaml: manifest('writer', '1.2.0') })
    const refused = await app.refusal('aegis.agent.export', { name: 'writer', version: '7.0.0' })
    expect(refused.code).toBe('ERR_AGENT_NOT_FOUND')
    expect(refused.message).toContain('2.0.0-rc.1, 1.10.0, 1.9.0, 1.2.0')
  })

  it('answers a version that is there with a conflict and a hint, unless forced', async () => {
    const first = await create(manifest('writer', '1.0.0'))
    const again = await create(manifest('writer', '1.0.0', 'tools: []'))
    expect(again).toMatchObject({ status: 'conflict', deployed: false, agent_id: first.agent_id })
    expect(again.hint).toContain('1.0.1')
    const changed = manifest('writer', '1.0.0', 'tools: []')
    expect(await create(changed, { force: true })).toMatchObject({ deployed: true, agent_id: first.agent_id })
    expect(await app.ask('aegis.agent.export', { name: 'writer' })).toMatchObject({ manifest_yaml: changed })
  })

  it('updates what exists, and nothing else', async () => {
    expect((await app.refusal('aegis.agent.update', { manifest_yaml: manifest('writer', '1.0.0') })).code).toBe(
      'ERR_AGENT_NOT_FOUND',
    )
    await create(manifest('writer', '1.0.0'))
    const conflict = await app.ask<Deployed>('aegis.agent.update', { manifest_yaml: manifest('writer', '1.0.0') })
    expect(conflict.status).toBe('conflict')
    await app.ask('aegis.agent.update', { manifest_yaml: manifest('writer', '1.0.1') })
    expect(await versionOf('writer')).toBe('1.0.1')
  })

  it('refuses tools and contexts that do not exist, by name', async () => {
    const tool = await app.refusal('aegis.agent.create', {
      manifest_yaml: manifest('a', '1.0.0', 'tools: [aegis.agent.lst]'),
    })
    expect(tool).toMatchObject({ code: 'ERR_MANIFEST_INVALID', details: { unknown_tools: ['aegis.agent.lst'] } })
    expect(tool.message).toContain('aegis.agent.list')
    const context = await app.refusal('aegis.agent.create', {
      manifest_yaml: manifest('a', '1.0.0', 'security_context: nowhere'),
    })
    expect(context).toMatchObject({ code: 'ERR_MANIFEST_INVALID', details: { field: 'spec.security_context' } })
    expect((await app.ask<Listed>('aegis.agent.list')).total).toBe(0)
  })

  it('has warnings in its answer', async () => {
    const answer = await app.call('aegis.agent.create', {
      manifest_yaml: manifest('a', '1.0.0').replace('kind: Agent', 'kind: AgentManifest'),
    })
    expect(answer.isError).toBe(false)
    expect(JSON.stringify(answer.content)).toContain('write Agent')
  })

  it('says which runtime no workspace here can have, and that executions will fail', async () => {
    const yaml = (runtime: string) => manifest('a', '1.0.0').replace('{ language: python, version: "3.11" }', runtime)
    const rust = await app.call('aegis.agent.create', { manifest_yaml: yaml('{ language: rust, version: "1.74" }') })
    expect(rust.isError).toBe(false)
    expect(JSON.stringify(rust.content)).toContain('build one with castellan image build under the name rust-1.74')
    const image = await app.call('aegis.agent.update', {
      manifest_yaml: yaml('{ image: "ghcr.io/acme/tool:2" }'),
      force: true,
    })
    expect(JSON.stringify(image.content)).toContain('under the name tool-2')
    const own = await app.call('aegis.agent.update', {
      manifest_yaml: yaml('{ image: "castellan/host" }'),
      force: true,
    })
    expect([own.isError, JSON.stringify(own.content ?? [])]).toEqual([false, expect.not.stringContaining('workspace')])
  })

  it('says which size no workspace here may have', async () => {
    const sized = (resources: string) => manifest('large', '1.0.0', `security: { resources: { ${resources} } }`)
    const told = async (resources: string) =>
      JSON.stringify(
        (await app.call('aegis.agent.create', { manifest_yaml: sized(resources), force: true })).content ?? [],
      )
    expect(await told('memory: 500Gi')).toContain('spec.security.resources.memory: must be at most 8192 MiB')
    expect(await told('cpu: 64000')).toContain('workspaces.max_vcpus')
    expect(await told('disk: 100Gi')).not.toContain('at most')
  })

  it('says that no model has its alias, and which there are', async () => {
    const told = async (at: TestApp, tool: string, args: object) =>
      JSON.stringify((await at.call(tool, args)).content ?? [])
    const yaml = (model: string) => manifest('a', '1.0.0').replace('"3.11" }', `"3.11", model: ${model} }`)
    const none = await told(app, 'aegis.agent.create', { manifest_yaml: manifest('a', '1.0.0') })
    expect(none).toMatch(/No language model is configured.*models\.providers.*Executions of the agent fail until then/)
    expect(await told(app, 'create_agent', { name: 'B' })).toContain('No language model is configured')

    const dataDir = newDataDir()
    const models = [
      { alias: 'default', model: 'm' },
      { alias: 'smart', model: 'n' },
    ]
    const providers = [{ name: 'own', type: 'openai-compatible', endpoint: 'http://127.0.0.1:9/v1', models }]
    writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
    await using other = await openTestApp({ dataDir })
    const unknown =
      /spec\.runtime\.model: no provider has a model with the alias 'gpt5'\. Use one of default, smart, or add/
    for (const tool of ['aegis.agent.create', 'aegis.agent.update']) {
      expect(await told(other, tool, { manifest_yaml: yaml('gpt5'), force: true })).toMatch(unknown)
      expect(await told(other, tool, { manifest_yaml: yaml('smart'), force: true })).not.toContain('model')
    }
    expect(await told(other, 'create_agent', { name: 'B' })).not.toContain('alias')
    const validate = (model: string) =>
      other.ask('aegis.schema.validate', { kind: 'agent', manifest_yaml: yaml(model) })
    expect(await validate('gpt5')).toEqual({ valid: true, errors: null, warnings: [expect.stringMatching(unknown)] })
    expect(await validate('smart')).toEqual({ valid: true, errors: null, warnings: [] })
  })

  it('is in the log with the whole manifest', async () => {
    const { agent_id } = await create(manifest('writer', '1.0.0'))
    await app.ask('aegis.agent.delete', { agent_id })
    const effects = (await app.log()).flatMap(({ effects }) => effects ?? [])
    expect(effects.map(({ kind }) => kind)).toEqual(['agent_deployed', 'agent_deleted'])
    expect(effects[0]!.body).toMatchObject({
      name: 'writer',
      scope: 'tenant',
      manifest_yaml: manifest('writer', '1.0.0'),
    })
  })

  it('survives a restart', async () => {
    await create(manifest('writer', '1.0.0'))
    app = await app.restart()
    expect(await versionOf('writer')).toBe('1.0.0')
  })
})

describe('who may', () => {
  it('a user reads and does not deploy', async () => {
    const user = await app.keyCaller({ role: 'editor', tier: 'user' })
    expect((await app.refusal('aegis.agent.create', { manifest_yaml: manifest('a', '1.0.0') }, user)).code).toBe(
      'ERR_PERMISSION_DENIED',
    )
    expect(await app.ask('aegis.agent.list', {}, user)).toMatchObject({ total: 0 })
  })

  it('the system deploys, but not for everybody, and not into the contexts of the system', async () => {
    const system = await app.keyCaller({ role: 'editor', tier: 'system' })
    await create(manifest('a', '1.0.0'), {}, system)
    const global = await app.refusal(
      'aegis.agent.create',
      { manifest_yaml: manifest('b', '1.0.0'), scope: 'global' },
      system,
    )
    expect(global).toMatchObject({ code: 'ERR_PERMISSION_DENIED', details: { field: 'scope' } })
    const yaml = manifest('c', '1.0.0', 'security_context: aegis-system-agent-runtime')
    expect((await app.refusal('aegis.agent.create', { manifest_yaml: yaml }, system)).code).toBe(
      'ERR_PERMISSION_DENIED',
    )
    expect((await create(yaml)).deployed).toBe(true)
  })

  it('tenants do not see each other, and all see what is global', async () => {
    const other = await app.keyCaller({ tenant: 'acme', role: 'admin', tier: 'operator' })
    const { agent_id } = await create(manifest('writer', '1.0.0'))
    for (const [tool, args] of [
      ['aegis.agent.export', { name: 'writer' }],
      ['aegis.agent.export', { name: agent_id }],
      ['aegis.agent.delete', { agent_id }],
      ['aegis.agent.logs', { agent_id }],
    ] as const) {
      expect((await app.refusal(tool, args, other)).code).toBe('ERR_AGENT_NOT_FOUND')
    }
    await create(manifest('shared', '1.0.0'), { scope: 'global' })
    expect(await app.ask('aegis.agent.list', {}, other)).toMatchObject({
      total: 1,
      agents: [{ name: 'shared', scope: 'global' }],
    })
    await create(manifest('shared', '9.0.0'), {}, other)
    expect(await versionOf('shared', other)).toBe('9.0.0')
    expect(await versionOf('shared')).toBe('1.0.0')
  })

  it('another tenant cannot be named', async () => {
    const refused = await app.refusal('aegis.agent.search', { query: 'x', tenant_id: 'acme' })
    expect(refused).toMatchObject({ code: 'ERR_TENANT_MISMATCH', details: { field: 'tenant_id' } })
    await app.ask('aegis.agent.search', { query: 'x', tenant_id: 'local' })
  })
})

describe('lists', () => {
  it('filter, page and count', async () => {
    for (const name of ['a', 'b', 'c']) await create(manifest(name, '1.0.0'))
    await create(manifest('d', '1.0.0').replace('team: docs', 'team: ops'))
    expect(await app.ask('aegis.agent.list', { labels: { team: 'docs' }, limit: 2, offset: 1 })).toMatchObject({
      agents: [{ name: 'b' }, { name: 'c' }],
      total: 3,
    })
    expect(await app.ask('aegis.agent.list', { status: 'paused' })).toMatchObject({ agents: [], total: 0 })
    expect(await app.ask('aegis.agent.list', { anything: 'else' })).toMatchObject({ total: 4 })
  })

  it('an agent that did nothing has its deployment in its log', async () => {
    const { agent_id } = await create(manifest('a', '1.0.0'))
    expect(await app.ask('aegis.agent.logs', { agent_id, limit: 5_000 })).toEqual({
      tool: 'aegis.agent.logs',
      agent_id,
      events: [
        {
          event_type: 'agent_deployed',
          payload: { name: 'a', version: '1.0.0', latest_version: '1.0.0', scope: 'tenant', by: 'owner' },
          recorded_at: expect.any(String),
        },
      ],
      total: 1,
      limit: 200,
      offset: 0,
    })
  })
})

describe('templates', () => {
  it('are there in every tenant, are not listed unless asked for, and stay', async () => {
    const other = await app.keyCaller({ tenant: 'acme', role: 'admin', tier: 'operator' })
    const exported = await app.ask<{ id: string; manifest_yaml: string }>(
      'aegis.agent.export',
      { name: 'coder' },
      other,
    )
    expect(exported.manifest_yaml).toContain('name: coder')
    expect(await app.ask('aegis.agent.list')).toMatchObject({ total: 0 })
    const listed = await app.ask<Listed>('aegis.agent.list', { include_platform_templates: true })
    expect(listed.agents.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['coder', 'researcher', 'tool-call-policy-judge']),
    )
    expect((await app.refusal('aegis.agent.delete', { agent_id: exported.id }, other)).code).toBe(
      'ERR_PERMISSION_DENIED',
    )
  })

  it('give way to an agent of the same name', async () => {
    await create(manifest('coder', '3.0.0'))
    expect(await versionOf('coder')).toBe('3.0.0')
    const { agents } = await app.ask<Listed>('aegis.agent.list', { include_platform_templates: true })
    expect(agents.filter(({ name }) => name === 'coder')).toMatchObject([{ version: '3.0.0' }])
  })
})
