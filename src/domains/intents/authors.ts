import type { ResolvedAgent } from '../agents/service.ts'
import { chosenAlias, type Models } from '../executions/model.ts'
import type { ExecutionInput, ManifestKind } from '../executions/ports.ts'

/** Agents that come with the program, whatever a tenant has deployed under their names. */
export type TemplateSource = Readonly<{ template(name: string): Promise<ResolvedAgent> }>

const authors: Readonly<Record<ManifestKind, string>> = {
  agent: 'agent-creator-agent',
  workflow: 'workflow-creator-agent',
}
/** An author has this context, whatever the caller may do: what the request says must not reach what its caller may. */
const AUTHOR_CONTEXT = 'default'

type Deps = Readonly<{ agents: TemplateSource; models: Pick<Models, 'requireAlias'> }>

/** A template with a model that is there. Throws ERR_MODEL_UNAVAILABLE, before anything is made, when there is none. */
export async function shippedAgent({ agents, models }: Deps, name: string): Promise<ResolvedAgent> {
  const agent = await agents.template(name)
  const model = chosenAlias(models, agent.manifest.runtime.model)
  return { ...agent, manifest: { ...agent.manifest, runtime: { ...agent.manifest.runtime, model } } }
}

/** The agent that writes manifests of a kind. */
export async function authorOf(deps: Deps, kind: ManifestKind): Promise<ResolvedAgent> {
  const author = await shippedAgent(deps, authors[kind])
  return { ...author, manifest: { ...author.manifest, securityContext: AUTHOR_CONTEXT } }
}

/** What the author is asked: its answer is deployed before its work counts as done. */
export const authoring = (
  { id, name, version, manifest }: ResolvedAgent,
  kind: ManifestKind,
  prompt: string,
): ExecutionInput => ({
  agent: { id, name, version },
  manifest,
  intent: prompt,
  input: null,
  contextOverrides: {},
  role: 'worker',
  workspaceId: null,
  keepWorkspace: false,
  untilMs: null,
  publishes: kind,
})
