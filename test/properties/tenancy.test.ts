import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { AppError } from '../../src/contract/app-error.ts'
import { tenantId } from '../../src/contract/principal.ts'
import { createPolicyEvaluator } from '../../src/domains/security-contexts/policy-evaluator.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { sqlLogStore } from '../../src/stores/sql/log-store.ts'
import { sqlTaskStore } from '../../src/stores/sql/task-store.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { allRulesOf } from '../../src/tools/runtime/call-rules.ts'
import { createCallTool } from '../../src/tools/runtime/call-tool.ts'
import { type CatalogTool, createCatalog } from '../../src/tools/runtime/catalog.ts'
import { createToolHost } from '../../src/tools/runtime/create-tool-host.ts'
import { defineTool, type ToolDefinition } from '../../src/tools/runtime/define-tool.ts'
import { createGuard } from '../../src/tools/runtime/guard.ts'
import { createRateLimiter } from '../../src/tools/runtime/rate-limiter.ts'
import { createStages } from '../../src/tools/runtime/stages.ts'
import { createToolViews } from '../../src/tools/runtime/tool-views.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { plantCanaries } from '../support/canaries.ts'
import { agentYaml } from '../support/executions.ts'
import { isLongRun } from '../support/long-run.ts'
import {
  type Copies,
  isUnaltered,
  type MakeHost,
  openCopies,
  probeTool,
  rowsOfTenant,
  tenantTables,
} from '../support/tenancy-probe.ts'
import { serveWeb, type WebServer } from '../support/web-server.ts'
import { workflowYaml } from '../support/workflows.ts'

const allTools = await loadAllTools()

let planted: Awaited<ReturnType<typeof plantCanaries>>
let engine: WebServer
beforeAll(async () => {
  planted = await plantCanaries()
  engine = await serveWeb({ '/': (_request, response) => void response.writeHead(403).end() })
})
afterAll(async () => {
  await planted.app[Symbol.asyncDispose]()
  await engine[Symbol.asyncDispose]()
})

const catalog = createCatalog(allTools)
const copiesWith = (makeHost: MakeHost): Promise<Copies> =>
  openCopies({ template: planted.app.dataDir, canaries: planted.canaries, makeHost, searchUrl: engine.at('/') })
const copiesOfTheApp = (): Promise<Copies> => copiesWith(async (app) => app.app.host)

/**
 * Whether a call of the tool can use up what the next tool needs to come as far as a leak: the copies allow few workspaces.
 * Everything else that B leaves behind is in both copies alike, and hides nothing.
 */
const spendsQuota = ({ definition }: CatalogTool): boolean =>
  ['workspaces', 'teams'].includes(definition.toolset) && allRulesOf(definition).some(({ effect }) => effect !== 'read')

/** What B has of that which copies allow few of. */
const spentBy = (tenant: string, { present }: Copies): string =>
  present.behindItsBack((db) => rowsOfTenant(db, tenant, /^(workspace|team)/))

describe.each(['admin', 'member'] as const)('a principal of another tenant, %s', (role) => {
  const open: { shared?: Copies; unspent?: Copies } = {}
  /** Every row of A is compared at the end once more, whether a write to it was noted or not. */
  const leave = async (which: keyof typeof open): Promise<void> => {
    const copies = open[which]
    if (copies === undefined) return
    delete open[which]
    const isAsItWas = isUnaltered(copies, planted.canaries.tenant, 'always')
    await copies[Symbol.asyncDispose]()
    expect(isAsItWas).toBe(true)
  }
  afterAll(async () => {
    await leave('shared')
    await leave('unspent')
  })

  it.each(catalog.names)('learns nothing from %s and changes nothing with it', async (name) => {
    const tool = catalog.find(name)!
    const alone = isLongRun ? 'in each' : role === 'admin' ? 0 : 1
    const the = { canaries: planted.canaries, principal: planted.principals[role], alone } as const
    const which = spendsQuota(tool) ? 'unspent' : 'shared'
    open[which] ??= await copiesOfTheApp()
    const copies = open[which]
    const spent = (): string => (which === 'unspent' ? spentBy(the.principal.tenant, copies) : '')
    const before = spent()
    const faults = await probeTool(tool, copies, the)
    if (faults.length > 0) {
      delete open[which]
      await copies[Symbol.asyncDispose]()
    }
    expect(faults).toEqual([])
    if (spent() !== before) await leave(which)
  })
})

describe('an operator of another tenant', () => {
  const agent = agentYaml('shared', '  task: { instruction: "Work." }\n')
  const workflow = workflowYaml('shared', 'A: { kind: System, command: update_blackboard, transitions: [] }')

  it.each<[string, string, object]>([
    ['reads the configuration', 'aegis.system.config', {}],
    ['deploys for everybody', 'aegis.agent.create', { manifest_yaml: agent, scope: 'global' }],
    ['updates what is for everybody', 'aegis.agent.update', { manifest_yaml: agent, scope: 'global', force: true }],
    ['deletes what is for everybody', 'aegis.agent.delete', { agent_id: 'shared' }],
    ['makes a workflow that is for everybody', 'aegis.workflow.promote', { name: 'own', target_scope: 'global' }],
    [
      'makes a key of what all share',
      'api_key_create',
      { name: 'x', role: 'admin', tier: 'user', tenant: 'aegis-system' },
    ],
  ])('never %s', async (_what, tool, args) => {
    await using app = await openTestApp()
    await app.ask('aegis.agent.create', { manifest_yaml: agent, scope: 'global' })
    await app.ask('aegis.workflow.create', { manifest_yaml: workflow })
    await app.ask('aegis.workflow.promote', { name: 'shared', target_scope: 'global' })
    const other = await app.keyCaller({ tenant: 'tenant-b', role: 'admin', tier: 'operator' })
    await app.ask('aegis.workflow.create', { manifest_yaml: workflow.replace('shared', 'own') }, other)
    expect(await app.refusal(tool, args, other)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    expect(await app.ask('aegis.agent.export', { name: 'shared' })).toMatchObject({ version: '1.0.0' })
  })

  it('does not remove or change a workflow that is for everybody', async () => {
    await using app = await openTestApp()
    await app.ask('aegis.workflow.create', { manifest_yaml: workflow })
    await app.ask('aegis.workflow.promote', { name: 'shared', target_scope: 'global' })
    const other = await app.keyCaller({ tenant: 'tenant-b', role: 'admin', tier: 'operator' })
    for (const tool of ['aegis.workflow.delete', 'aegis.workflow.demote'])
      await app.refusal(tool, { name: 'shared' }, other)
    await app.refusal('aegis.workflow.update', { manifest_yaml: workflow, force: true }, other)
    expect(await app.ask('aegis.workflow.export', { name: 'shared' }, other)).toMatchObject({ version: '1.0.0' })
  })

  it('has what is for everybody replaced by the operators of the installation', async () => {
    await using app = await openTestApp()
    const operator = await app.keyCaller({ role: 'admin', tier: 'operator' })
    const deployed = await app.ask('aegis.agent.create', { manifest_yaml: agent, scope: 'global' }, operator)
    expect(deployed).toMatchObject({ deployed: true })
    expect(await app.ask('aegis.system.config', {}, operator)).toHaveProperty('content_yaml')
  })
})

describe('the probe', () => {
  const base = {
    name: 'task_peek',
    toolset: 'ledger',
    title: 'Peek',
    description: 'A tool that does not keep tenants apart.',
    permission: 'task:read',
    tier: 'user',
    effect: 'read',
    idempotent: true,
    rate: 'default',
    skipJudge: true,
    input: z.strictObject({ task_id: z.string().max(64) }),
  } as const
  const otherTenant = tenantId('tenant-of-a')
  const numberOf = (taskId: string): number => Number(/^T-(\d{4})$/.exec(taskId)?.[1] ?? -1)

  const leaking: readonly [string, ToolDefinition, RegExp][] = [
    [
      'shows what another tenant has',
      defineTool({
        ...base,
        output: z.strictObject({ found: z.string() }),
        run: async ({ task_id }, { call }) => ({
          found: (await sqlTaskStore.findTask(call.read, otherTenant, numberOf(task_id)))?.title ?? 'nothing',
        }),
      }) as ToolDefinition,
      /shows secret-title/,
    ],
    [
      'tells whether another tenant has it',
      defineTool({
        ...base,
        output: z.strictObject({}),
        run: async ({ task_id }, { call }) => {
          const found = await sqlTaskStore.findTask(call.read, otherTenant, numberOf(task_id))
          throw new AppError(found === undefined ? 'ERR_TASK_NOT_FOUND' : 'ERR_PERMISSION_DENIED', 'No.')
        },
      }) as ToolDefinition,
      /answers differently/,
    ],
    [
      'tells how much another tenant has',
      defineTool({
        ...base,
        input: z.strictObject({ project: z.string().max(64) }),
        output: z.strictObject({ count: z.int() }),
        run: async ({ project }, { call }) => ({
          count: await sqlTaskStore.countTasks(call.read, otherTenant, { project }),
        }),
      }) as ToolDefinition,
      /answers differently/,
    ],
  ]

  it.each(leaking)('notices a tool that %s', async (_what, definition, fault) => {
    const tools = createCatalog({ ledger: [definition] })
    await using copies = await copiesWith((fork) => hostOf(fork, tools))
    const the = { canaries: planted.canaries, principal: planted.principals.member, alone: 'in each' } as const
    const faults = await probeTool(tools.find('task_peek')!, copies, the)
    expect(faults.join('\n')).toMatch(fault)
  })

  it('notices a tool that alters what another tenant has', async () => {
    const open: TestApp[] = []
    const tools = createCatalog({
      ledger: [
        defineTool({
          ...base,
          output: z.strictObject({}),
          run: () => {
            for (const fork of open)
              fork.behindItsBack((db) => db.exec("UPDATE tasks SET progress = 1 WHERE tenant = 'tenant-of-a'"))
            return {}
          },
        }) as ToolDefinition,
      ],
    })
    await using copies = await copiesWith((fork) => {
      open.push(fork)
      return hostOf(fork, tools)
    })
    const the = { canaries: planted.canaries, principal: planted.principals.member, alone: 'in each' } as const
    expect((await probeTool(tools.find('task_peek')!, copies, the)).join('\n')).toMatch(/alters rows/)
  })

  it('plants something in every table and in every field that a person fills in', () => {
    const { app, canaries } = planted
    const dump = app.behindItsBack((db) => {
      const empty = tenantTables(db).filter((name) => {
        const count = db.prepare(`SELECT count(*) AS n FROM "${name}" WHERE tenant = ?`).get(canaries.tenant)
        return count!['n'] === 0
      })
      expect(empty).toEqual([])
      return rowsOfTenant(db, canaries.tenant)
    })
    expect(canaries.secrets.filter((secret) => !dump.includes(secret))).toEqual([])
  })

  /** The pipeline of the program around other tools, on the store of a copy. */
  async function hostOf(fork: TestApp, tools: ReturnType<typeof createCatalog>) {
    const { clock } = fork
    const views = createToolViews({ catalog: tools, clock })
    const callTool = createCallTool({
      spelling: catalog.spelling,
      stages: createStages({
        views,
        mode: 'FULL',
        rateLimiter: createRateLimiter({ clock, enabled: false }),
        limitOwner: false,
        guard: createGuard({ policies: createPolicyEvaluator({ clock: systemClock }) }),
      }),
      database: (await fork.app.ready).database,
      log: sqlLogStore,
      services: {} as never,
      clock,
      logger: silentLogger,
      newCallId: () => 'c_probe',
      readRecords: 'batched',
    })
    return createToolHost({ views, mode: 'FULL', clock, callTool: Promise.resolve(callTool) })
  }
})
