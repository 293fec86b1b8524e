import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CheckpointStore } from '../../audit/ports.ts'
import { writeFileAtomically } from './atomic-file.ts'

/** One signed note per tenant, in a file of its own beside the database. */
export function createCheckpointStore(directory: string): CheckpointStore {
  const pathOf = (tenant: string) => join(directory, `${encodeURIComponent(tenant)}.checkpoint`)
  return {
    async read(tenant) {
      try {
        return await readFile(pathOf(tenant), 'utf8')
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw error
      }
    },
    // Losing the newest note in a power cut leaves an older one that the log still extends.
    write: (tenant, note) => writeFileAtomically(pathOf(tenant), note, { durable: false }),
  }
}
