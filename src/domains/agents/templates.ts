import { sha256Bytes } from '../../kernel/hash.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { AgentManifest } from './manifest.ts'
import type { AgentTemplate } from './ports.ts'

type ReadTemplate = Readonly<{ id: string; manifest: AgentManifest; manifestYaml: string }>

/** Templates have no row, so their ids are derived from their names, and are the same on every machine. */
const templateId = (name: string): string => uuidOf(sha256Bytes(`agent template ${name}`))

/** The shipped templates, read at their first use. */
export function createTemplates(load: () => Promise<readonly AgentTemplate[]>) {
  let reading: Promise<ReadonlyMap<string, ReadTemplate>> | undefined
  const all = (): Promise<ReadonlyMap<string, ReadTemplate>> => {
    reading ??= readAll(load)
    return reading
  }
  return {
    list: async (): Promise<ReadTemplate[]> => [...(await all()).values()],
    find: async (idOrName: string): Promise<ReadTemplate | undefined> => {
      const templates = await all()
      return templates.get(idOrName) ?? [...templates.values()].find(({ id }) => id === idOrName)
    },
  }
}

export type Templates = ReturnType<typeof createTemplates>

async function readAll(load: () => Promise<readonly AgentTemplate[]>): Promise<ReadonlyMap<string, ReadTemplate>> {
  const { parseAgentManifest } = await import('./manifest.ts')
  const read = (await load()).map(({ name, manifestYaml }): [string, ReadTemplate] => [
    name,
    { id: templateId(name), manifest: parseAgentManifest(manifestYaml).manifest, manifestYaml },
  ])
  return new Map(read.sort(([left], [right]) => (left < right ? -1 : 1)))
}
