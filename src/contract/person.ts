import type { Transport } from './call.ts'
import type { Principal } from './principal.ts'

type Caller = Readonly<{ principal: Principal; transport: Transport }>

/**
 * Whether a person calls, at a program of theirs or without one: the local owner or a user. No key, agent or run is one, and nobody who
 * comes through a gateway or in a signed session. What must not let itself pass is asked of these alone.
 */
export function isPerson({ principal, transport }: Caller): boolean {
  const { kind, executionId, runRootId, agent, gateway, sealSessionId } = principal
  const isOfProgram = [executionId, runRootId, agent, gateway, sealSessionId].some((one) => one !== undefined)
  return (kind === 'owner' || kind === 'user') && !isOfProgram && transport !== 'agent' && transport !== 'engine'
}

/** Whether a person calls without a model between: at the command line, or signed in themselves at the web address. */
export function isAtConsole(caller: Caller): boolean {
  const { principal, transport } = caller
  const isSignedIn = transport === 'rest' && principal.kind === 'user' && principal.oauthClient === undefined
  return isPerson(caller) && (transport === 'cli' || isSignedIn)
}
