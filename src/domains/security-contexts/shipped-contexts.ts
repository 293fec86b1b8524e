import type { Capability, SecurityContext } from '../../contract/security-context.ts'
import { WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'

/** The three tiers of the platform's tools, without files, commands and the web; each by one of its names. */
const userTools: readonly string[] = [
  'aegis.agent.list',
  'aegis.agent.export',
  'aegis.agent.generate',
  'aegis.agent.logs',
  'aegis.agent.search',
  'aegis.workflow.list',
  'aegis.workflow.validate',
  'aegis.workflow.export',
  'aegis.workflow.run',
  'aegis.workflow.generate',
  'aegis.workflow.logs',
  'aegis.workflow.wait',
  'aegis.workflow.cancel',
  'aegis.workflow.signal',
  'aegis.workflow.executions.list',
  'aegis.workflow.executions.get',
  'aegis.workflow.status',
  'aegis.workflow.search',
  'aegis.task.execute',
  'aegis.task.status',
  'aegis.task.list',
  'aegis.task.cancel',
  'aegis.task.logs',
  'aegis.task.wait',
  'aegis.execute.intent',
  'aegis.execute.status',
  'aegis.tools.list',
  'aegis.tools.search',
  'aegis.schema.get',
  'aegis.schema.validate',
  'aegis.runtime.list',
  'zaru.switch_mode',
]
const systemTools: readonly string[] = [
  'aegis.agent.create',
  'aegis.agent.update',
  'aegis.workflow.create',
  'aegis.workflow.update',
  'aegis.workflow.promote',
  'aegis.workflow.demote',
]

const tool = (toolPattern: string): Capability => ({ toolPattern })
const ownFiles: Capability = { toolPattern: 'fs.*', pathAllowlist: [WORKSPACE_FOLDER] }
const forUsers: readonly Capability[] = [ownFiles, tool('cmd.run'), tool('web.*'), ...userTools.map(tool)]

/** Calls per minute for files, for web searches and for each other tool; searches of the registries per hour. */
type Pace = Readonly<{ files: number; webSearches: number; others: number; searchesPerHour: number }>

const paced = (capability: Capability, calls: number, perSeconds = 60): Capability => ({
  ...capability,
  rateLimit: { calls, perSeconds },
})

const consumer = (name: string, description: string, pace: Pace): SecurityContext => ({
  name,
  description,
  capabilities: [
    paced(ownFiles, pace.files),
    paced(tool('web.search'), pace.webSearches),
    ...['web.fetch', 'cmd.run', ...userTools].map((pattern) =>
      /\.(agent|workflow)\.search$/.test(pattern)
        ? paced(tool(pattern), pace.searchesPerHour, 3_600)
        : paced(tool(pattern), pace.others),
    ),
  ],
  denyList: [],
})

/** The contexts of every installation; the configuration may replace each by its name. */
export const shippedContexts: readonly SecurityContext[] = [
  {
    name: 'default',
    description: 'Default of agents: their own files, commands in their workspace, the web, and the tools for users.',
    capabilities: forUsers,
    denyList: [],
  },
  {
    name: 'aegis-system-agent-runtime',
    description:
      'Agents that the platform trusts to write agents and workflows: the tools for users and those for the system.',
    capabilities: [...forUsers, ...systemTools.map(tool)],
    denyList: [],
  },
  {
    name: 'aegis-system-operator',
    description: 'An operator: every tool that its permissions allow.',
    capabilities: [tool('*')],
    denyList: [],
  },
  consumer('zaru-free', 'A user without a plan.', { files: 60, webSearches: 20, others: 30, searchesPerHour: 30 }),
  consumer('zaru-pro', 'A user of the plan pro.', { files: 300, webSearches: 60, others: 120, searchesPerHour: 300 }),
  consumer('zaru-business', 'A user of the plan business.', {
    files: 600,
    webSearches: 200,
    others: 300,
    searchesPerHour: 1_000,
  }),
  consumer('zaru-enterprise', 'A user of the plan enterprise.', {
    files: 1_200,
    webSearches: 500,
    others: 600,
    searchesPerHour: 5_000,
  }),
]

export type ContextRegistry = Readonly<{
  find(name: string): SecurityContext | undefined
  names: readonly string[]
}>

/** The shipped contexts, replaced or extended by those of the configuration. */
export function createContextRegistry(configured: readonly SecurityContext[]): ContextRegistry {
  const byName = new Map([...shippedContexts, ...configured].map((context) => [context.name, context]))
  return { find: (name) => byName.get(name), names: [...byName.keys()].sort() }
}
