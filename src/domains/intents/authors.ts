import type { ResolvedAgent } from '../agents/service.ts'
import { chosenAlias, type Models } from '../executions/model.ts'
import type { ExecutionInput, ManifestKind } from '../executions/ports.ts'

/** Agents that ship with the program, whatever a tenant has deployed under their names. */
export type TemplateSource = Readonly<{ template(name: string): Promise<ResolvedAgent> }>

const authors: Readonly<Record<ManifestKind, string>> = {
  agent: 'agent-creator-agent',
  workflow: 'workflow-creator-agent',
}
/**
 * The security context of an authoring agent, whatever the caller may do: text in the request must not gain the caller's rights.
 */
const AUTHOR_CONTEXT = 'default'

type Deps = Readonly<{ agents: TemplateSource; models: Pick<Models, 'requireAlias'> }>

/** A template whose model is available. Throws ERR_MODEL_UNAVAILABLE otherwise, before anything is created. */
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

/** The request to the authoring agent. Its answer must be deployed before its execution completes. */
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
