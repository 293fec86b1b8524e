import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InternalTransport, InvocationResult } from '../../contract/tool-invoker.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { createMutex } from '../../kernel/keyed-mutex.ts'
import { waitForApproval } from '../runs/approvals.ts'
import { createToolClient, type ToolClient } from '../runs/tool-client.ts'
import type { Visit } from './run-ports.ts'

type Calling = Pick<Visit, 'run' | 'deps' | 'steps'>

/** Calls tools as the run's owner. An error that is only temporary is retried for a while. */
function toolsOf({ run, deps, steps }: Calling, transport: InternalTransport = 'engine'): ToolClient {
  // A tool that a manifest names is called with the tier `user`, whatever the run's own tier is: the author of the manifest may
  // be another identity.
  const principal: Principal = transport === 'agent' ? { ...run.principal, tier: 'user' } : run.principal
  return createToolClient(deps.invoker, principal, {
    attemptsMax: limits.workflowCallAttemptsMax,
    transport,
    namesTool: true,
    askPerson: (request) =>
      oneAtATime(steps, () => waitForApproval({ approvals: deps.approvals, run, steps }, request)),
  })
}

const mutexes = new WeakMap<Visit['steps'], ReturnType<typeof createMutex>>()

/** A run waits for one approval at a time, so concurrent steps ask one after the other. */
function oneAtATime<T>(steps: Visit['steps'], work: () => Promise<T>): Promise<T> {
  const mutex = mutexes.get(steps) ?? createMutex()
  mutexes.set(steps, mutex)
  return mutex(work)
}

export const callTool = (
  calling: Calling,
  name: string,
  args: JsonObject,
  transport?: InternalTransport,
): Promise<InvocationResult> => toolsOf(calling, transport).call(name, args, calling.steps.signal)

/** Runs a script of this program in a workspace. */
export const runScript = (calling: Calling, args: JsonObject): Promise<InvocationResult> =>
  toolsOf(calling).runScript(args, calling.steps.signal)

/** The same. Throws if the call fails; a script that fails has its exit code. */
export const askScript = (calling: Calling, args: JsonObject): Promise<JsonObject> =>
  toolsOf(calling).askScript<JsonObject>(args, calling.steps.signal)

/** Calls a tool. Throws if the call fails. */
export const askTool = (calling: Calling, name: string, args: JsonObject): Promise<JsonObject> =>
  toolsOf(calling).ask<JsonObject>(name, args, calling.steps.signal)
