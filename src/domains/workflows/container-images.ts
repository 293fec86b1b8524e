import { AppError } from '../../contract/app-error.ts'
import type { Run } from '../../engine/ports.ts'
import { quoted } from '../manifests/findings.ts'
import { meaningOf } from '../runs/manifest-values.ts'
import type { SecretResolver } from '../runs/ports.ts'
import type { ContainerStep } from './manifest-schema.ts'
import { fieldOf } from './state-texts.ts'

/** The images of this installation, and the substitutes for images that it lacks. */
export type ImageCatalog = Readonly<{
  names(): Promise<readonly string[]>
  /** By the name of the missing image, or by `*` for any. */
  substitutes: ReadonlyMap<string, string>
}>

/**
 * Resolves the image of a manifest to one of this installation. No registry is asked: an image is known by its full name, or by
 * the last part of it with or without its tag (`docker.io/library/alpine:3.20` is `alpine:3.20`, `alpine-3.20` or `alpine`). For
 * a missing image the configured substitute is used; without one the result is undefined.
 */
export async function findImage(
  requested: string,
  { names, substitutes }: ImageCatalog,
): Promise<Readonly<{ image: string; isStandIn: boolean }> | undefined> {
  const last = requested.slice(requested.lastIndexOf('/') + 1).replace(/@.*$/, '')
  const [name = last, tag] = last.split(':')
  const candidates = [requested, last, ...(tag === undefined ? [] : [`${name}-${tag}`]), name]
  const known = await names()
  const image = candidates.find((candidate) => known.includes(candidate))
  if (image !== undefined) return { image, isStandIn: false }
  const standIn = [...candidates, '*'].map((candidate) => substitutes.get(candidate)).find((one) => one !== undefined)
  return standIn === undefined ? undefined : { image: standIn, isStandIn: true }
}

/** Like `findImage`, but throws if there is no image. */
export async function requireImage(
  image: string,
  shelf: ImageCatalog,
  mayStandIn = true,
): Promise<Readonly<{ image: string; isStandIn: boolean }>> {
  const found = await findImage(image, shelf)
  if (found !== undefined && (mayStandIn || !found.isStandIn)) return found
  throw new AppError(
    'ERR_INVALID_INPUT',
    `image: ${noImage(image)}${mayStandIn ? '' : '; image_pull_policy is Never'}.`,
    {
      field: 'image',
      image: image.slice(0, 256).toWellFormed(),
    },
  )
}

export const noImage = (image: string): string =>
  `there is no image ${quoted(image)} here, and images are not pulled; build it with castellan image, or name a substitute in the configuration (workflows.images)`

/** Credentials that name no secret are an error, whether or not the image is present. */
export function requireCredentials(
  deps: Readonly<{ values: SecretResolver }>,
  run: Pick<Run, 'tenant' | 'principal'>,
  state: string,
  { registryCredentials: value }: Pick<ContainerStep, 'registryCredentials'>,
): void {
  if (value === null) return
  meaningOf(deps, run, 'request', fieldOf(state, 'registry_credentials'), { from: 'secret', value })
}
