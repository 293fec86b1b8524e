import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { releaseNotes } from '../support/release-notes-workflow.ts'
import { ended, register, start, workflowYaml } from '../support/workflows.ts'

let app: TestApp
let [ann, bob, eve]: readonly ToolCaller[] = []
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  ann = await app.keyCaller({ name: 'ann', tenant: 'acme', role: 'admin', tier: 'system' })
  bob = await app.keyCaller({ name: 'bob', tenant: 'acme', role: 'member', tier: 'user' })
  eve = await app.keyCaller({ name: 'eve', tenant: 'evil', role: 'admin', tier: 'system' })
})
afterAll(() => app[Symbol.asyncDispose]())

const state = (text: string) =>
  `A: { kind: System, command: update_blackboard, env: { said: "${text}" }, transitions: [] }`
const namesFor = async (caller?: ToolCaller, more: object = {}) => {
  const { workflows } = await app.ask<{ workflows: Answer[] }>('aegis.workflow.list', more, caller)
  return workflows.map(({ name }) => name)
}
const saidBy = async (caller: ToolCaller | undefined, name: string, more: object = {}) =>
  (await ended(app, await start(app, name, more, caller), caller)).blackboard['said']

describe('the registry', () => {
  it('answers with the document’s fields, and gives the manifest back as it was', async () => {
    const made = await app.call('aegis.workflow.create', { manifest_yaml: releaseNotes })
    expect(JSON.parse(made.json)).toMatchObject({ deployed: true, name: 'release-notes', version: '1.2.0' })
    const exported = await app.ask<{ manifest_yaml: string; id: string }>('aegis.workflow.export', {
      name: 'release-notes',
    })
    expect(exported).toMatchObject({ manifest_yaml: releaseNotes, name: 'release-notes', version: '1.2.0' })
    expect(
      await app.ask('aegis.workflow.create', { manifest_yaml: exported.manifest_yaml, force: true }),
    ).toMatchObject({ workflow_id: exported.id })
    expect(await app.ask<Answer>('aegis.workflow.list')).toMatchObject({
      workflows: [{ id: exported.id, name: 'release-notes', version: '1.2.0', initial_state: 'SEED' }],
    })
  })

  it('suggests when a workflow could run, and tells when it does by itself, until that is switched off', async () => {
    const timed = (version: string, more = '') =>
      workflowYaml('clock', state('tick'), { version, spec: `default_schedule: { cron: "0 9 * * 1"${more} }` })
    const next_run_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT09:00:00\.000Z$/)
    const schedule = { type: 'cron', cron: '0 9 * * 1', timezone: 'UTC', next_run_at }
    const suggested_schedule = { cron: '0 9 * * 1', timezone: 'UTC', jitter_seconds: 0 }
    const suggested = await register(app, timed('0.9.0'))
    expect(suggested).toMatchObject({ deployed: true, suggested_schedule })
    expect(suggested).not.toHaveProperty('schedule')
    expect(await app.ask('workflow_info', { name: 'clock' })).toMatchObject({ schedule: null, suggested_schedule })
    expect(await register(app, timed('1.0.0', ', enabled: true'))).toMatchObject({ deployed: true, schedule })
    expect(await app.ask('workflow_info', { name: 'clock' })).toMatchObject({ schedule })
    const paused = await app.ask('aegis.workflow.update', { manifest_yaml: timed('1.1.0', ', enabled: false') })
    expect(paused).not.toHaveProperty('schedule')
    expect(await app.ask('workflow_info', { name: 'clock' })).toMatchObject({ schedule: null, suggested_schedule })
  })

  it('says that no judge looked, and what it read otherwise than it was written', async () => {
    const { content } = await app.call('aegis.workflow.create', {
      manifest_yaml: workflowYaml('warned', 'A: { kind: system, command: update_blackboard }'),
    })
    expect(JSON.stringify(content)).toContain('No judge reviewed this workflow')
    expect(JSON.stringify(content)).toContain('write System')
    const updated = await app.call('aegis.workflow.update', {
      manifest_yaml: workflowYaml('warned', state('two'), { version: '1.1.0' }),
    })
    expect(JSON.stringify(updated.content)).toContain('No judge reviewed this workflow')
  })

  it('says which workflows and agents it names are not there yet', async () => {
    const states = `A: { kind: Subworkflow, workflow_id: nobodys, mode: fire_and_forget, transitions: [{ condition: always, target: B }] }
B: { kind: Subworkflow, workflow_id: naming, mode: fire_and_forget, transitions: [{ condition: always, target: C }] }
C: { kind: ContainerRun, name: c, image: host, command: [ls], output_handler: { type: agent, agent_id: nobody }, transitions: [] }`
    const manifest_yaml = workflowYaml('naming', states)
    const checked = await app.ask<{ valid: boolean; warnings: string[] }>('aegis.workflow.validate', { manifest_yaml })
    expect(checked.valid).toBe(true)
    const { content } = await app.call('aegis.workflow.create', { manifest_yaml })
    for (const warnings of [JSON.stringify(content), checked.warnings.join('\n')]) {
      expect(warnings).toContain("There is no workflow 'nobodys' yet")
      expect(warnings).toContain("There is no agent 'nobody' yet")
      expect(warnings).not.toContain("'naming'")
    }
  })

  it('is found by its states when it has no description, and not by what has nothing to do with it', async () => {
    const bare: Readonly<Record<string, readonly string[]>> = {
      'test-workflow': ['A', 'B'],
      pipeline: ['GENERATE', 'RUN', 'REPORT'],
      'nightly-backup': ['DUMP', 'COPY', 'VERIFY'],
      onboarding: ['CREATE_ACCOUNT', 'SEND_MAIL', 'WAIT_FOR_REPLY'],
    }
    for (const [name, states] of Object.entries(bare)) {
      const texts = states.map((one, index) => {
        const target = states[index + 1]
        const transitions = target === undefined ? '[]' : `[{ condition: always, target: ${target} }]`
        return `${one}: { kind: System, command: "true", transitions: ${transitions} }`
      })
      await register(app, workflowYaml(name, texts.join('\n')))
    }
    const found = async (query: string) =>
      (
        await app.ask<{ results: { name: string }[] }>('aegis.workflow.search', {
          query,
          include_platform_templates: false,
        })
      ).results
        .map(({ name }) => name)
        .filter((name) => Object.hasOwn(bare, name))
    for (const query of ['bake bread at home', 'feed the cat', 'weather in Lisbon', 'play chess', 'resize photos']) {
      expect([query, await found(query)]).toEqual([query, []])
    }
    expect((await found('send mail to a new employee'))[0]).toBe('onboarding')
    expect((await found('backup of my database'))[0]).toBe('nightly-backup')
    expect(await found('test workflow')).toContain('test-workflow')
  })

  it('refuses what is not valid and names all of it', async () => {
    const broken = workflowYaml('broken', 'A: { kind: System, transitions: [{ condition: always, target: B }] }')
    expect(await app.ask('aegis.workflow.validate', { manifest_yaml: broken })).toMatchObject({
      valid: false,
      errors: [expect.stringContaining('command: is required'), expect.stringContaining("there is no state 'B'")],
    })
    expect(await app.ask('aegis.workflow.validate', { manifest_yaml: releaseNotes })).toMatchObject({
      valid: true,
      errors: null,
    })
    expect(await app.refusal('aegis.workflow.create', { manifest_yaml: broken })).toMatchObject({
      code: 'ERR_MANIFEST_INVALID',
    })
  })

  it('keeps versions side by side, and runs the latest or the one that is named', async () => {
    await register(app, workflowYaml('many', state('one'), { version: '1.9.0' }))
    await register(app, workflowYaml('many', state('two'), { version: '1.10.0' }))
    await register(app, workflowYaml('many', state('early'), { version: '2.0.0-beta.1' }))
    expect(await saidBy(undefined, 'many')).toBe('two')
    expect(await saidBy(undefined, 'many', { version: '1.9.0' })).toBe('one')
    expect(await saidBy(undefined, 'many', { version: '2.0.0-beta.1' })).toBe('early')
    expect(await app.refusal('aegis.workflow.run', { name: 'many', version: '3.0.0' })).toMatchObject({
      code: 'ERR_WORKFLOW_NOT_FOUND',
      message: expect.stringContaining('1.10.0'),
    })
    const conflict = await app.refusal('aegis.workflow.create', {
      manifest_yaml: workflowYaml('many', state('x'), { version: '1.9.0' }),
    })
    expect(conflict).toMatchObject({ code: 'ERR_ALREADY_EXISTS', message: expect.stringContaining('2.0.0') })
    await app.ask('aegis.workflow.update', {
      manifest_yaml: workflowYaml('many', state('new one'), { version: '1.9.0' }),
      force: true,
    })
    expect(await saidBy(undefined, 'many', { version: '1.9.0' })).toBe('new one')
    expect(
      await app.refusal('aegis.workflow.update', { manifest_yaml: workflowYaml('nobody', state('x')) }),
    ).toMatchObject({ code: 'ERR_WORKFLOW_NOT_FOUND' })
  })

  it('shows a tenant its own and what is global, and a name means the narrowest', async () => {
    await register(app, workflowYaml('shared', state('acme')), {}, ann)
    expect(await namesFor(bob)).toContain('shared')
    expect(await namesFor(eve, { scope: 'visible' })).not.toContain('shared')
    expect(await app.refusal('aegis.workflow.export', { name: 'shared' }, eve)).toMatchObject({
      code: 'ERR_WORKFLOW_NOT_FOUND',
    })
    expect(await app.refusal('aegis.workflow.promote', { name: 'shared' }, ann)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      message: expect.stringContaining('operator'),
    })
    expect(await app.refusal('aegis.workflow.promote', { name: 'shared', target_scope: 'tenant' }, bob)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    await app.ask('aegis.workflow.demote', { name: 'shared', target_scope: 'user' }, ann)
    expect(await namesFor(bob)).not.toContain('shared')
    expect(await app.refusal('aegis.workflow.run', { name: 'shared' }, bob)).toMatchObject({
      code: 'ERR_WORKFLOW_NOT_FOUND',
    })
    await register(app, workflowYaml('shared', state('for all of acme')), {}, ann)
    expect(await saidBy(ann, 'shared')).toBe('acme')
    expect(await saidBy(bob, 'shared')).toBe('for all of acme')
    expect(await app.refusal('aegis.workflow.promote', { name: 'shared', target_scope: 'tenant' }, ann)).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
  })

  it('makes a workflow global and takes it back, for operators', async () => {
    await register(app, workflowYaml('public', state('from local')))
    expect(await app.ask('aegis.workflow.promote', { name: 'public' })).toMatchObject({
      promoted: true,
      target_scope: 'global',
      name: 'public',
    })
    expect(await namesFor(eve, { scope: 'global' })).toContain('public')
    expect(await saidBy(eve, 'public')).toBe('from local')
    const shipped = { name: 'platform-approval-gate' }
    for (const refused of [
      await app.refusal('aegis.workflow.delete', shipped),
      await app.refusal('aegis.workflow.demote', shipped),
      await app.refusal('aegis.workflow.update', { manifest_yaml: workflowYaml(shipped.name, state('own')) }),
      await app.refusal('aegis.workflow.update', { manifest_yaml: workflowYaml('public', state('own')) }, eve),
    ]) {
      expect(refused).toMatchObject({
        code: 'ERR_PERMISSION_DENIED',
        message: expect.stringContaining('belongs to another tenant and cannot be changed here'),
      })
    }
    await register(app, workflowYaml('public', state('own')), {}, eve)
    expect(await saidBy(eve, 'public')).toBe('own')
    expect(await app.refusal('aegis.workflow.promote', { name: 'public' })).toMatchObject({
      code: 'ERR_INVALID_TRANSITION',
    })
    expect(await app.ask('aegis.workflow.demote', { name: 'public' })).toMatchObject({
      demoted: true,
      target_scope: 'tenant',
    })
    expect(await namesFor(bob, { scope: 'visible' })).not.toContain('public')
  })

  it('lets nobody see or touch the runs of others', async () => {
    await register(app, workflowYaml('private', state('x')), {}, ann)
    const id = await start(app, 'private', {}, bob)
    await ended(app, id, bob)
    for (const tool of ['status', 'wait', 'logs', 'cancel', 'executions.get']) {
      expect(await app.refusal(`aegis.workflow.${tool}`, { execution_id: id }, eve)).toMatchObject({
        code: 'ERR_EXECUTION_NOT_FOUND',
      })
    }
    expect(await app.ask('aegis.workflow.executions.list', {}, ann)).toMatchObject({
      executions: expect.arrayContaining([expect.objectContaining({ execution_id: id })]),
    })
    const carl = await app.keyCaller({ name: 'carl', tenant: 'acme', role: 'member', tier: 'user' })
    expect(await app.ask('aegis.workflow.executions.list', {}, carl)).toMatchObject({ executions: [], total: 0 })
    expect(await app.refusal('aegis.workflow.status', { execution_id: id }, carl)).toMatchObject({
      code: 'ERR_EXECUTION_NOT_FOUND',
    })
    expect(await app.refusal('aegis.workflow.list', { tenant_id: 'acme' }, eve)).toMatchObject({
      code: 'ERR_TENANT_MISMATCH',
    })
  })

  it('pages runs and events with true totals', async () => {
    await register(app, workflowYaml('counted', state('x')))
    for (let count = 0; count < 3; count++) await ended(app, await start(app, 'counted'))
    const page = await app.ask<{ executions: Answer[] }>('aegis.workflow.executions.list', {
      workflow_id: 'counted',
      limit: 2,
      offset: 1,
    })
    expect(page).toMatchObject({ total: 3, limit: 2, offset: 1 })
    expect(page.executions).toHaveLength(2)
    const id = String(page.executions[0]!['execution_id'])
    const logs = await app.ask<{ events: Answer[]; total: number }>('aegis.workflow.logs', {
      execution_id: id,
      limit: 1,
      offset: 1,
    })
    expect(logs).toMatchObject({
      tool: 'aegis.workflow.logs',
      status: 'completed',
      limit: 1,
      offset: 1,
      events: [{ sequence: 2 }],
    })
    expect(logs.total).toBeGreaterThan(3)
    expect(await app.ask('aegis.workflow.logs', { execution_id: id, limit: 201 })).toMatchObject({ limit: 200 })
    expect(await app.ask('aegis.workflow.executions.get', { execution_id: id })).toMatchObject({
      input: {},
      blackboard: { said: 'x' },
      state_outputs: { A: { status: 'success' } },
      current_state: 'A',
    })
  })

  it('finds workflows by what they do', async () => {
    await register(
      app,
      workflowYaml('etl-pipeline', state('x'), {
        metadata: 'description: Loads data into the warehouse every night.\nlabels: { team: data }',
      }),
    )
    const found = await app.ask<{ results: Answer[] }>('aegis.workflow.search', { query: 'load data into a warehouse' })
    expect(found).toMatchObject({ tool: 'aegis.workflow.search', query: 'load data into a warehouse' })
    expect(found.results[0]).toMatchObject({ name: 'etl-pipeline', version: '1.0.0', labels: { team: 'data' } })
    expect(await app.ask('aegis.workflow.search', { query: 'load data', labels: { team: 'other' } })).toMatchObject({
      results: [],
      total: 0,
    })
    const approval = await app.ask<{ results: Answer[] }>('aegis.workflow.search', { query: 'ask a person to approve' })
    expect(approval.results[0]).toMatchObject({ name: 'platform-approval-gate' })
    expect(
      await app.ask('aegis.workflow.search', {
        query: 'ask a person to approve',
        include_platform_templates: false,
        min_score: 0.5,
      }),
    ).toMatchObject({ results: [] })
  })
})
