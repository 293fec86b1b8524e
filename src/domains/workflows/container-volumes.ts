import { shellWord } from '../../kernel/shell-word.ts'
import type { SharedVolume, Storage, VolumeMount } from './manifest-schema.ts'
import type { Visit } from './run-ports.ts'

/** The path of a volume in the workspace of the run. */
export const volumePath = (name: string): string => (name === 'workspace' ? '/workspace' : `/volumes/${name}`)

const ID_KEY = '_volume_id'

/** Volume names that a manifest need not declare: `workspace`, and the blackboard key of its id. */
export const workspaceNames = ({ workspace: { blackboardKey } }: Storage): readonly string[] =>
  blackboardKey.endsWith(ID_KEY) ? ['workspace', blackboardKey.slice(0, -ID_KEY.length)] : ['workspace']

/**
 * The volumes of a step. `from` is null for a volume in the workspace of the run; otherwise it is the workspace that the
 * blackboard names as `<name>_volume_id`.
 */
export function mountedVolumes(
  { manifest, context }: Visit,
  volumes: readonly VolumeMount[],
): readonly MountedVolume[] {
  const own = workspaceNames(manifest.storage)
  return volumes.map((volume) => {
    if (own.includes(volume.name)) return { ...volume, name: 'workspace', from: null, retained: null }
    const shared = manifest.storage.sharedVolumes.find(({ name }) => name === volume.name)
    const id = shared === undefined ? context[`${volume.name}${ID_KEY}`] : undefined
    const from = typeof id === 'string' && id.trim() !== '' ? id.trim() : null
    return { ...volume, from, retained: shared?.storageClass === 'persistent' ? shared : null }
  })
}

/** `retained` is the volume if it outlives the run. */
export type MountedVolume = VolumeMount & Readonly<{ from: string | null; retained: SharedVolume | null }>

/** Links the volumes to the paths that a step wants. An existing path is not covered. */
export function mountScript(volumes: readonly VolumeMount[]): string {
  const lines = volumes.map(({ name, mountPath }) => {
    const [target, path] = [shellWord(volumePath(name)), shellWord(mountPath)]
    if (volumePath(name) === mountPath) return `mkdir -p ${target}`
    const parent = shellWord(mountPath.slice(0, mountPath.lastIndexOf('/')) || '/')
    return `mkdir -p ${target} ${parent} && { [ "$(readlink ${path})" = ${target} ] || { { [ ! -e ${path} ] || rmdir ${path} 2>/dev/null; } && ln -s ${target} ${path}; } || { echo "mount_path "${path}" holds something else" >&2; exit 125; }; }`
  })
  return lines.join('\n')
}
