import { squashName } from '../../kernel/nearest-name.ts'
import type { SecurityPathOf } from '../manifests/fit-shape.ts'

const CONTAINER = 'a ContainerRun state'
const STEP = `${CONTAINER} or a step of ParallelContainerRun`
const AGENT = 'the manifest of the agent'

/** Fields that restrict something, and the path at which they take effect. */
const paths: Readonly<Record<string, string>> = {
  filesystem: AGENT,
  judges: 'an Agent or a ParallelAgents state',
  network: `${CONTAINER}, as network_mode`,
  network_mode: CONTAINER,
  network_policy: `${CONTAINER}, as network_mode`,
  read_only: 'volumes[] of a container state',
  read_only_root_filesystem: CONTAINER,
  resources: STEP,
  security: AGENT,
  security_context: AGENT,
  subcommand_allowlist: AGENT,
  tool_validation: AGENT,
  tools: AGENT,
}

/** The right path of a security field that has no effect where it is written. */
export const securityPathOf: SecurityPathOf = (key) => {
  const field = Object.keys(paths).find((name) => squashName(name) === squashName(key))
  return field === undefined ? undefined : { field, path: paths[field]! }
}
