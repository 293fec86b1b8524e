import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createToolInvoker } from '../../src/app/wiring/open-tool-invoker.ts'
import { rightsOf } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import { checkAgentManifest } from '../../src/domains/agents/manifest.ts'
import { meaningOf } from '../../src/domains/runs/manifest-values.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'
import { callerOf, openTestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'

const signal = new AbortController().signal
const narrow = { name: 'narrow', description: '', capabilities: [{ toolPattern: 'server_ping' }], denyList: [] }

describe('what agents and workflows call', () => {
  it.each(['api_key_create', 'seal_session_create', 'log_export'])(
    'is never %s, whatever started them',
    async (name) => {
      await using app = await openTestApp()
      const invoker = createToolInvoker(app.app.views, app.config.mode, async (principal) => principal)
      invoker.connect((caller, tool, args, options) => app.app.host.call(caller, tool, args, options))
      for (const transport of ['agent', 'engine'] as const) {
        const answer = await invoker.call(localOwner, name, { name: 'x' }, { signal, transport })
        expect(answer).toMatchObject({ isError: true, code: 'ERR_PERMISSION_DENIED' })
      }
      expect(invoker.describe(localOwner).map((tool) => tool.name)).not.toContain(name)
    },
  )

  it('is bound by the contexts of the caller, what the platform does for a run is not', async () => {
    await using app = await openTestApp()
    const invoker = createToolInvoker(app.app.views, app.config.mode, async (principal) => principal)
    invoker.connect((caller, tool, args, options) => app.app.host.call(caller, tool, args, options))
    const principal = { ...localOwner, securityContexts: [narrow] }
    expect(await invoker.call(principal, 'task_list', {}, { signal, transport: 'agent' })).toMatchObject({
      isError: true,
    })
    expect(await invoker.call(principal, 'task_list', {}, { signal, transport: 'engine' })).toMatchObject({
      isError: false,
    })
  })
})

describe('a secret of the configuration', () => {
  const values = { secret: () => 'hush', config: () => 'plain' }
  const asked = { from: 'secret', value: 'NAME' } as const
  const mean = (
    principal: Principal,
    target: 'workspace' | 'request',
    value: Parameters<typeof meaningOf>[4] = asked,
  ) => meaningOf({ values }, { tenant: principal.tenant, principal }, target, 'spec.env.A', value)
  const member: Principal = {
    ...localOwner,
    kind: 'key',
    keyId: 'k',
    actor: 'ann',
    ...rightsOf('member'),
    tier: 'user',
  }

  it('is for the tenant of the installation', () => {
    expect(mean(localOwner, 'workspace')).toBe('hush')
  })

  it('is not there for others', () => {
    const other = { ...localOwner, tenant: tenantId('other') }
    for (const target of ['workspace', 'request'] as const) expect(() => mean(other, target)).toThrow(/is not set/)
  })

  it('enters a workspace only for those who could name it in a manifest of their own', () => {
    expect(() => mean(member, 'workspace')).toThrow(/spec\.env\.A: it names a secret.*tier 'system'/)
    expect(mean(member, 'request')).toBe('hush')
    expect(mean(member, 'workspace', { from: 'config', value: 'NAME' })).toBe('plain')
    expect(mean({ ...member, tier: 'system' }, 'workspace')).toBe('hush')
    const agent = { ...member, kind: 'agent' } as const
    expect(mean({ ...agent, ownerTier: 'system' }, 'workspace')).toBe('hush')
    expect(() => mean({ ...agent, ownerTier: 'user' }, 'workspace')).toThrow(/names a secret/)
  })
})

it('templates have no parts that multiply', () => {
  const template = '{{#*inline "a"}}x{{/inline}}{{> a}}{{> a}}'
  const yaml = agentYaml('bomb', `  task: { instruction: x, prompt_template: '${template}' }\n`)
  const checked = checkAgentManifest(yaml)
  expect(checked.ok ? '' : checked.errors.join('\n')).toMatch(/prompt_template is not a template: partials/)
})

it('the agents of an intent are bound by the contexts of its owner, and found only by those who may use them', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-bounds-'))
  const models = [{ alias: 'default', model: 'm' }]
  const provider = { name: 'none', type: 'openai-compatible', endpoint: 'http://127.0.0.1:9/v1', models }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers: [provider] } }))
  await using app = await openTestApp({ dataDir })
  const capabilities = [{ toolPattern: 'aegis.execute.*' }]
  const bound = { name: 'requests', description: '', capabilities, denyList: [] }
  const manifest = { name: 'manifest:other', description: '', capabilities, denyList: [] }
  const caller = callerOf({ ...localOwner, securityContexts: [bound, manifest] })
  await app.ask('aegis.agent.create', {
    manifest_yaml: agentYaml('adds-two-numbers', '  task: { instruction: "Add." }\n'),
  })
  const request = { intent: 'adds two numbers', language: 'python' }
  const { pipeline_execution_id: id } = await app.ask<Record<string, string>>('aegis.execute.intent', request, caller)
  const { database } = await app.app.ready
  const payloadOf = async (step: string): Promise<string | undefined> => {
    const events = await sqlRunStore.listEvents(database!.read, LOCAL_TENANT, id!, { after: 0, limit: 500 })
    return events.find(({ key }) => key === step)?.payloadText
  }
  await expect.poll(() => payloadOf('shipped-agent')).toContain('aegis-python-executor-agent')
  expect(await payloadOf('agent')).toBe('null')
  const run = await sqlRunStore.findRun(database!.read, LOCAL_TENANT, id!)
  expect(run?.principal.securityContexts).toEqual([bound])
  await app.ask('aegis.workflow.cancel', { execution_id: id })
})
