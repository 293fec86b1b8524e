import type { Call } from '../../contract/call.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { AgentManifest } from './manifest.ts'
import type { Agent, AgentScope, AgentStore } from './ports.ts'

type Deployed = Readonly<{
  agent: Agent
  scope: AgentScope
  manifest: AgentManifest
  yaml: string
  /** Whether there was no agent of this name before. */
  isNew: boolean
}>

/** A deployment in the log of the tenant and in the activity of the agent, in the transaction that makes it. */
export async function tellDeployed(call: Call, store: AgentStore, deployed: Deployed): Promise<void> {
  const { agent, scope, manifest, yaml, isNew } = deployed
  const told = { name: agent.name, version: manifest.version, latest_version: agent.latestVersion, scope }
  const { actor } = call.principal
  await store.insertEvent(call.write, agent.tenant, {
    agentId: agent.id,
    type: isNew ? 'agent_deployed' : 'agent_updated',
    payload: { ...told, by: actor },
    atMs: call.nowMs,
  })
  call.record({
    kind: 'agent_deployed',
    body: {
      agent_id: agent.id,
      ...told,
      status: agent.status,
      manifest_digest: sha256Hex(yaml),
      manifest_yaml: yaml,
      deployed_by: actor,
    },
  })
}
