import { AppError } from '../../contract/app-error.ts'
import type { Run } from '../../engine/ports.ts'
import { quoted } from '../manifests/findings.ts'
import { meaningOf } from '../runs/manifest-values.ts'
import type { SecretResolver } from '../runs/ports.ts'
import type { ContainerStep } from './manifest-schema.ts'
import { fieldOf } from './state-texts.ts'

/** The images of this installation, and which of them stand in for images that are not here. */
export type ImageShelf = Readonly<{
  names(): Promise<readonly string[]>
  /** By the name of the image that is not here, or by `*` for any. */
  standIns: ReadonlyMap<string, string>
}>

/**
 * Which image of this installation an image of a manifest means. Registries are not asked: an image is known by its full
 * name, or by the last part of it with or without its tag (`docker.io/library/alpine:3.20` is `alpine:3.20`, `alpine-3.20`
 * or `alpine`). For one that is not here, what the configuration names stands in; without that it means none.
 */
export async function findImage(
  wanted: string,
  { names, standIns }: ImageShelf,
): Promise<Readonly<{ image: string; isStandIn: boolean }> | undefined> {
  const last = wanted.slice(wanted.lastIndexOf('/') + 1).replace(/@.*$/, '')
  const [name = last, tag] = last.split(':')
  const candidates = [wanted, last, ...(tag === undefined ? [] : [`${name}-${tag}`]), name]
  const known = await names()
  const image = candidates.find((candidate) => known.includes(candidate))
  if (image !== undefined) return { image, isStandIn: false }
  const standIn = [...candidates, '*'].map((candidate) => standIns.get(candidate)).find((one) => one !== undefined)
  return standIn === undefined ? undefined : { image: standIn, isStandIn: true }
}

/** The same for a step that needs one. */
export async function requireImage(
  wanted: string,
  shelf: ImageShelf,
  mayStandIn = true,
): Promise<Readonly<{ image: string; isStandIn: boolean }>> {
  const found = await findImage(wanted, shelf)
  if (found !== undefined && (mayStandIn || !found.isStandIn)) return found
  throw new AppError(
    'ERR_INVALID_INPUT',
    `image: ${noImage(wanted)}${mayStandIn ? '' : '; image_pull_policy is Never'}.`,
    {
      field: 'image',
      image: wanted.slice(0, 256).toWellFormed(),
    },
  )
}

export const noImage = (wanted: string): string =>
  `there is no image ${quoted(wanted)} here, and images are not pulled; build it with castellan image, or name a substitute in the configuration (workflows.images)`

/** A name of credentials that stands for nothing is a mistake, whether an image is there already or not. */
export function requireCredentials(
  deps: Readonly<{ values: SecretResolver }>,
  run: Pick<Run, 'tenant' | 'principal'>,
  state: string,
  { registryCredentials: value }: Pick<ContainerStep, 'registryCredentials'>,
): void {
  if (value === null) return
  meaningOf(deps, run, 'request', fieldOf(state, 'registry_credentials'), { from: 'secret', value })
}
