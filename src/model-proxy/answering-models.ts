import type { PricedProvider } from './ports.ts'

/**
 * Which model a provider answered with, where a request named another one: an alias, a version, or a model in whose place it chose another.
 * Only answers tell, so this is known from the first of them on, and while the process lives.
 */
export type AnsweringModels = Readonly<{
  /** The requested model, and the one that answered last if that was another. */
  modelsFor(upstream: Pick<PricedProvider, 'name'>, model: string): readonly string[]
  note(upstream: Pick<PricedProvider, 'name'>, requested: string, answering: string): void
}>

const MODELS_MAX = 1_000
const NAME_CHARS_MAX = 256

export function createAnsweringModels(): AnsweringModels {
  const known = new Map<string, Map<string, readonly string[]>>()
  return {
    modelsFor: ({ name }, model) => known.get(name)?.get(model) ?? [model],
    note({ name }, requested, answering) {
      if (requested.length > NAME_CHARS_MAX || answering.length > NAME_CHARS_MAX) return
      const ofProvider = known.get(name)
      if (answering === requested) {
        ofProvider?.delete(requested)
        return
      }
      if (ofProvider?.get(requested)?.[1] === answering) return
      const models = ofProvider ?? new Map<string, readonly string[]>()
      if (models.size >= MODELS_MAX) models.delete(models.keys().next().value!)
      known.set(name, models.set(requested, [requested, answering]))
    },
  }
}
