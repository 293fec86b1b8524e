import type { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InternalTransport, InvocationResult } from '../../contract/tool-invoker.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { waitForApproval } from '../runs/approvals.ts'
import { createToolClient, failureOf, type ToolClient } from '../runs/tool-client.ts'
import type { Visit } from './run-ports.ts'

type Calling = Pick<Visit, 'run' | 'deps' | 'steps'>

/** Tools in the name of the caller that started the run. What is only unavailable for the moment is tried again for a while. */
function toolsOf({ run, deps, steps }: Calling, transport: InternalTransport = 'engine'): ToolClient {
  // What a manifest names is called with the rights of a user, whatever the run's own rights are: its author is another identity.
  const principal: Principal = transport === 'agent' ? { ...run.principal, tier: 'user' } : run.principal
  return createToolClient(deps.invoker, principal, {
    attemptsMax: limits.workflowCallAttemptsMax,
    transport,
    namesTool: true,
    askPerson: (asked) => oneAtATime(steps, () => waitForApproval({ approvals: deps.approvals, run, steps }, asked)),
  })
}

const lines = new WeakMap<Visit['steps'], Promise<unknown>>()

/** A run waits for one thing at a time; steps beside each other ask one after the other. */
function oneAtATime<T>(steps: Visit['steps'], work: () => Promise<T>): Promise<T> {
  const turn = (lines.get(steps) ?? Promise.resolve()).then(work)
  lines.set(
    steps,
    turn.catch(() => {}),
  )
  return turn
}

export const callTool = (
  calling: Calling,
  name: string,
  args: JsonObject,
  transport?: InternalTransport,
): Promise<InvocationResult> => toolsOf(calling, transport).call(name, args, calling.steps.signal)

/** The answer of a call that must succeed. */
export const askTool = (calling: Calling, name: string, args: JsonObject): Promise<JsonObject> =>
  toolsOf(calling).ask<JsonObject>(name, args, calling.steps.signal)

export const toError = (name: string, answer: InvocationResult): AppError => failureOf(answer, name)
