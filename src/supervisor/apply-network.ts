import type { NetworkSpec } from '../domains/workspaces/backend.ts'
import type { EgressBroker } from './egress-broker.ts'
import type { NetworkHub } from './network/index.ts'

/** Applies the whole policy. On an error the previous policy stays in force. */
export async function applyNetwork(
  { egress, network: hub }: Readonly<{ egress: EgressBroker; network: NetworkHub }>,
  { id, ip, pid, before }: Readonly<{ id: string; ip: string; pid: number; before: NetworkSpec }>,
  network: NetworkSpec,
): Promise<void> {
  await egress.set({ ip, pid }, network)
  try {
    await hub.update(id, network)
  } catch (error) {
    await egress.set({ ip, pid }, before)
    throw error
  }
}
