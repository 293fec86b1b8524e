import type { Database } from '../../contract/database.ts'
import type { Embedder } from '../../contract/embedder.ts'
import type { ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Models } from '../../domains/executions/model.ts'
import type { AssignmentDeps } from '../../domains/gateways/assignments.ts'
import type { ServerService } from '../../domains/server/service.ts'
import type { RunFeed } from '../../http/rest-routes.ts'
import { sqlActivityStore } from '../../stores/sql/activity-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import type { Catalog } from '../../tools/runtime/catalog.ts'
import type { ToolSearches } from '../../tools/runtime/create-tool-search.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import { activityOf } from './agent-activity.ts'
import { openAgents } from './open-agents.ts'
import { openApprovals } from './open-approvals.ts'
import { openEngine, openExecutions } from './open-executions.ts'
import { openIntents } from './open-intents.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import type { OpenedPeople } from './open-people.ts'
import type { OpenedPolicies } from './open-policies.ts'
import { openRunFeed } from './open-run-feed.ts'
import { openSchedules } from './open-schedules.ts'
import type { Guardrails } from './open-tool-policies.ts'
import { openWorkflows } from './open-workflows.ts'
import type { WorkspaceServices } from './workspace-services.ts'

export type AgentServices = Readonly<{
  services: Pick<Services, 'agents' | 'approvals' | 'executions' | 'workflows' | 'authoring' | 'intents' | 'platform'>
  runs: RunFeed
  close(): Promise<void>
}>

export type AgentServicesParts = Readonly<{
  database: Database
  ownerWatch: OwnerWatch
  models: Models
  policies: OpenedPolicies
  server: ServerService
  catalog: Catalog
  views: ToolViews
  invoker: ToolInvoker
  workspaceServices: WorkspaceServices
  embedder: Embedder | undefined
  toolSearch: ToolSearches
  noteToolChange: AssignmentDeps['noteChange']
  noteAccessChange: AssignmentDeps['noteChange']
  people: Pick<OpenedPeople, 'providers'>
  guardrails: Pick<Guardrails, 'trust' | 'approvals'>
}>

/** Agents and workflows, and the engine that runs them. Resumes runs and schedules. */
export function openAgentServices(deps: AppDeps, parts: AgentServicesParts): AgentServices {
  const { database, ownerWatch, models, policies, catalog, views, invoker } = parts
  const { approvals, trust } = parts.guardrails
  const { opened, imageFolder } = parts.workspaceServices
  const { backendDeps } = opened
  const engine = openEngine(deps, { database, workspaces: opened, ownerWatch, trust })
  const schedules = openSchedules(deps, { database, engine, backendDeps, tools: invoker })
  const agents = openAgents(deps, {
    embedder: parts.embedder,
    rankTools: parts.toolSearch.rank,
    schedules: schedules.registries.agent,
    imageFolder,
    policies,
    models,
    tools: invoker,
    ...{ userTeams: sqlPeopleStore, trust },
    ...{ views, noteToolChange: parts.noteToolChange, noteAccessChange: parts.noteAccessChange, people: parts.people },
    activity: activityOf(engine, sqlActivityStore),
    health: async () => {
      const { version, status } = await parts.server.health({ nowMs: deps.clock.nowMs() })
      return { version, isHealthy: status === 'ok' }
    },
    capabilities: [...new Set(catalog.tools.map(({ definition }) => definition.toolset))].sort(),
  })
  const { registry } = agents
  const imageOf = agents.runtimes.resolve
  const executions = openExecutions(deps, {
    ...{ engine, database, agents: registry, models, imageOf, invoker, approvals, policies },
    workspaces: opened.service,
    snapshots: opened.service,
  })
  const workflows = openWorkflows(deps, {
    engine,
    database,
    agents: registry,
    search: agents.search,
    invoker,
    approvals,
    trust,
    images: backendDeps.backend.images,
    schedules: schedules.registries.workflow,
  })
  schedules.connect({ agents: registry, executions: executions.service, workflows })
  const { authoring, intents } = openIntents(deps, {
    engine,
    database,
    agents: registry,
    executions: executions.service,
    models,
    imageOf,
    invoker,
  })
  // After everything that they call is open.
  const recovered = opened.recovered
    .then(() => engine.begin())
    .then(() => schedules.scheduler.begin())
    .catch((error) => deps.logger.warn('run recovery failed', { cause: String(error) }))
  return {
    services: {
      agents: registry,
      executions: executions.service,
      workflows,
      approvals: openApprovals(deps, { trust, engine, workflows }),
      authoring,
      intents,
      platform: agents.platform,
    },
    runs: openRunFeed(engine, database, ownerWatch, { trust, clock: deps.clock }),
    async close() {
      await recovered
      await schedules.scheduler.close()
      await engine.close()
    },
  }
}
