import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A map from workspace ids to values. Each entry is persisted in a file of its own, so it outlives the supervisor. */
type WorkspaceRecords<Value> = Readonly<{
  get(id: string): Value | undefined
  entries(): Iterable<readonly [id: string, value: Value]>
  workspaceIds(): readonly string[]
  /** The value is in the map before it is on disk, so concurrent callers see it. On an error the entry is removed. */
  put(id: string, value: Value): Promise<void>
  remove(id: string): Promise<void>
}>

type Format<Value> = Readonly<{
  write(value: Value): string
  /** Returns undefined for an incomplete text: the supervisor was killed while it wrote the file, before the value was used. */
  read(text: string): Value | undefined
}>

export async function openWorkspaceRecords<Value>(
  directory: string,
  format: Format<Value>,
): Promise<WorkspaceRecords<Value>> {
  await mkdir(directory, { recursive: true })
  const records = new Map<string, Value>()
  for (const id of await readdir(directory)) {
    const value = format.read(await readFile(join(directory, id), 'utf8'))
    if (value === undefined) await rm(join(directory, id), { force: true })
    else records.set(id, value)
  }
  async function remove(id: string): Promise<void> {
    if (!records.has(id)) return
    await rm(join(directory, id), { force: true })
    records.delete(id)
  }
  return {
    get: (id) => records.get(id),
    entries: () => records.entries(),
    workspaceIds: () => [...records.keys()],
    async put(id, value) {
      records.set(id, value)
      try {
        await writeFile(join(directory, id), format.write(value))
      } catch (error) {
        await remove(id)
        throw error
      }
    },
    remove,
  }
}
