import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CheckpointStore } from '../../audit/ports.ts'
import { tenantId } from '../../contract/principal.ts'
import { inWords } from '../../contract/system-fault.ts'
import { writeFileAtomically } from './atomic-file.ts'

const SUFFIX = '.checkpoint'

/** One signed note per tenant, in a file of its own beside the database. */
export function createCheckpointStore(directory: string): CheckpointStore {
  const pathOf = (tenant: string) => join(directory, `${encodeURIComponent(tenant)}${SUFFIX}`)
  return {
    async read(tenant) {
      try {
        return await readFile(pathOf(tenant), 'utf8')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw inWords(error, pathOf(tenant))
      }
    },
    async tenants() {
      const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return []
        throw inWords(error, directory)
      })
      return names
        .filter((name) => name.endsWith(SUFFIX))
        .map((name) => tenantId(decodeURIComponent(name.slice(0, -SUFFIX.length))))
        .sort()
    },
    write: (tenant, note) => writeFileAtomically(pathOf(tenant), note, { durable: true }),
    async setAside(tenant, note, name) {
      const path = join(directory, 'evidence', `${encodeURIComponent(tenant)}-${name}${SUFFIX}`)
      await writeFileAtomically(path, note, { durable: true })
      return path
    },
  }
}
