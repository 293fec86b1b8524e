import type { Transport } from './call.ts'
import type { Principal } from './principal.ts'

type Caller = Readonly<{ principal: Principal; transport: Transport }>

/**
 * Whether a person calls: the local owner or a user. Keys, agents and runs are not people, nor is any caller through a gateway or
 * in a signed session. Only people may approve calls and clear contexts.
 */
export function isPerson({ principal, transport }: Caller): boolean {
  const { kind, executionId, runRootId, agent, gateway, sealSessionId } = principal
  const isOfProgram = [executionId, runRootId, agent, gateway, sealSessionId].some((one) => one !== undefined)
  return (kind === 'owner' || kind === 'user') && !isOfProgram && transport !== 'agent' && transport !== 'engine'
}

/** Whether a person calls without a model in between: at a command line, here or elsewhere, or signed in at the web address. */
export function isAtConsole(caller: Caller): boolean {
  const { principal, transport } = caller
  const isSignedIn = transport === 'rest' && principal.kind === 'user' && principal.oauthClient === undefined
  return isPerson(caller) && (transport === 'cli' || principal.atTerminal === true || isSignedIn)
}
