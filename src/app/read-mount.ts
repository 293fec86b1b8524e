import { resolve } from 'node:path'
import type { AllowedMount } from '../domains/workspaces/mounts.ts'
import type { Config } from './config.ts'

export const readMount = ({ mode, path, tenant }: Config['workspaces']['mounts'][number]): AllowedMount => ({
  path: resolve(path),
  readOnly: mode === 'ro',
  tenant: tenant ?? null,
})
