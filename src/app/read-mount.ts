import { resolve } from 'node:path'
import type { AllowedMount } from '../domains/workspaces/mounts.ts'

/** `ro PATH` or `rw PATH`, perhaps with ` tenant=NAME`. */
export function readMount(text: string): AllowedMount {
  const [, mode, path = '', tenant] = /^(ro|rw) (.*?)(?: tenant=(\S+))?$/.exec(text) ?? []
  return { path: resolve(path), readOnly: mode === 'ro', tenant: tenant ?? null }
}
