import type { Call } from '../../contract/call.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Services } from './services.ts'

/** A context inherits the services: copying them for every call would cost more than many calls. */
export function contextOver(services: Partial<Services>) {
  class Context {
    readonly call: Call
    readonly principal: Principal
    constructor(call: Call) {
      this.call = call
      this.principal = call.principal
    }
  }
  Object.setPrototypeOf(Context.prototype, services)
  return Context
}
