import { AppError } from '../contract/app-error.ts'
import { openWorkspaceRecords } from './workspace-records.ts'

/** The IP addresses of workspaces. They are persisted, so a restart never assigns an address twice. */
type Addresses = Readonly<{
  /** Idempotent: a workspace keeps its address until `release`. */
  take(id: string): Promise<string>
  release(id: string): Promise<void>
  workspaceIds(): readonly string[]
}>

/** 10.99.0.1 is the hub's address. */
const FIRST = 2
const LAST = 65_534

export async function createAddresses(directory: string): Promise<Addresses> {
  const numbers = await openWorkspaceRecords<number>(directory, {
    write: String,
    read: (text) => (Number(text) >= FIRST && Number(text) <= LAST ? Number(text) : undefined),
  })
  const used = new Set([...numbers.entries()].map(([, number]) => number))
  let next = FIRST
  async function assign(id: string): Promise<number> {
    if (used.size > LAST - FIRST) {
      throw new AppError(
        'ERR_QUOTA_EXCEEDED',
        'Every workspace address is in use. Destroy workspaces that are not needed.',
        {},
      )
    }
    while (used.has(next)) next = next === LAST ? FIRST : next + 1
    const number = next
    next = next === LAST ? FIRST : next + 1
    used.add(number)
    try {
      await numbers.put(id, number)
    } catch (error) {
      used.delete(number)
      throw error
    }
    return number
  }
  return {
    async take(id) {
      const number = numbers.get(id) ?? (await assign(id))
      return `10.99.${number >> 8}.${number & 255}`
    },
    async release(id) {
      const number = numbers.get(id)
      if (number === undefined) return
      await numbers.remove(id)
      used.delete(number)
    },
    workspaceIds: numbers.workspaceIds,
  }
}
