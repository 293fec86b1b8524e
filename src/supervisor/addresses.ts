import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'

/** Which address each workspace has. Kept on disk, one file each, so that a restart hands out no address twice. */
type Addresses = Readonly<{
  /** The workspace's address, the same each time. */
  take(id: string): Promise<string>
  release(id: string): Promise<void>
  /** Every workspace that has one. */
  initProcesses(): readonly string[]
}>

/** 10.99.0.1 is the hub. */
const FIRST = 2
const LAST = 65_534

export async function createAddresses(directory: string): Promise<Addresses> {
  await mkdir(directory, { recursive: true })
  const taken = new Map<string, number>()
  for (const name of await readdir(directory)) {
    const number = Number(await readFile(join(directory, name), 'utf8'))
    // One that was being written when we were killed: its workspace was never told of it.
    if (number < FIRST || number > LAST) await rm(join(directory, name), { force: true })
    else taken.set(name, number)
  }
  const used = new Set(taken.values())
  let next = FIRST
  async function release(id: string): Promise<void> {
    const number = taken.get(id)
    if (number === undefined) return
    await rm(join(directory, id), { force: true })
    taken.delete(id)
    used.delete(number)
  }
  return {
    async take(id) {
      let number = taken.get(id)
      if (number === undefined) {
        if (used.size > LAST - FIRST) {
          throw new AppError(
            'ERR_QUOTA_EXCEEDED',
            'Every workspace address is in use. Destroy workspaces that are not needed.',
            {},
          )
        }
        while (used.has(next)) next = next === LAST ? FIRST : next + 1
        number = next
        next = next === LAST ? FIRST : next + 1
        used.add(number)
        taken.set(id, number)
        try {
          await writeFile(join(directory, id), String(number))
        } catch (error) {
          await release(id)
          throw error
        }
      }
      return `10.99.${number >> 8}.${number & 255}`
    },
    release,
    initProcesses: () => [...taken.keys()],
  }
}
