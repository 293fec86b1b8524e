import { AppError } from '../../contract/app-error.ts'
import { LOCAL_TENANT, type Principal } from '../../contract/principal.ts'
import type { VirtualKeyHolder } from '../../domains/model-proxies/virtual-keys.ts'
import type { ModelAddresses } from '../../http/create-http-transport.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { isProxyAddress, MODEL_ROUTER } from '../../model-proxy/find-route.ts'
import type { AuthMethod, Caller, FinishedRequest } from '../../model-proxy/ports.ts'
import { openai } from '../../model-proxy/protocols/openai.ts'
import { minuteOfDayIn } from '../../model-proxy/rules/model-rules.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { createReadRecords } from '../../tools/runtime/read-records.ts'
import type { App } from '../build-app.ts'
import type { Config } from '../config.ts'
import { configuredModelRules } from './configured-model-rules.ts'
import { createModelRequestRecords } from './model-request-records.ts'
import { publicProviderNames, reservedProviderNames, upstreamsOf } from './model-upstreams.ts'
import { providersOf } from './open-models.ts'
import { openToolJudge } from './open-tool-judge.ts'
import { savedBy, toInteraction } from './to-interaction.ts'

type Parts = Readonly<{ app: App; config: Config; random: Random; logger: Logger }>

/** The addresses of model providers. Their code is loaded with the first request. */
export function openModelProxy({
  app,
  config,
  random,
  logger,
}: Parts): ModelAddresses & Readonly<{ close(): Promise<void> }> {
  const upstreams = upstreamsOf(providersOf(config))
  // A wrong rule is reported at the start.
  const rules = configuredModelRules(config)
  for (const { name } of config.models.providers) {
    if (reservedProviderNames.has(name)) {
      logger.warn(
        `models.providers: '${name}' cannot be the name of a provider, because the path /v1/${name} is already in use. Rename the provider.`,
      )
    }
  }
  let close = async (): Promise<void> => {}
  return {
    isAddress: (url) => isProxyAddress(url, upstreams),
    providers: {
      public: publicProviderNames,
      all: [...upstreams.keys(), MODEL_ROUTER],
      refusalText: openai.refusalText,
    },
    close: () => close(),
    async open({ authenticate, claim, addressOf, isOurs, sendError }) {
      const [{ createModelProxy }, { createKeyGuard }, { createJudging }, { createPrices }, answered, ready] =
        await Promise.all([
          import('../../model-proxy/create-model-proxy.ts'),
          import('../../model-proxy/key-guard.ts'),
          import('../../model-proxy/judging/create-judging.ts'),
          import('../../model-proxy/prices.ts'),
          import('../../model-proxy/answering-models.ts'),
          app.ready,
        ])
      const { modelAccess, modelChoices, database, requireSoundLog, usageLimits, guardrails, interactions } = ready
      if (!modelAccess || !modelChoices || !database || !usageLimits || !guardrails || !interactions) {
        throw new AppError(
          'ERR_ROUTE_NOT_FOUND',
          'The model proxy is not available in the present mode of this server.',
        )
      }
      const { directory: proxies, virtualKeys } = await modelAccess()
      const { caller_keys, answer_timeout_secs, idle_timeout_secs, mcp_server_names } = config.model_proxy
      const prices = createPrices()
      const bootId = random.bytes(9).toString('base64url')
      let count = 0
      const records = createModelRequestRecords({
        records: createReadRecords({ database, log: sqlLogStore }),
        newCallId: () => `m_${bootId}_${(count++).toString(36)}`,
        logger,
      })
      const proxy = createModelProxy({
        upstreams,
        authenticate(req, ours) {
          if (ours !== null && isVirtualKey(ours)) {
            const claimed = (holder: VirtualKeyHolder): Caller => {
              claim(req.socket, holder.principal)
              return virtualCallerOf(holder)
            }
            const holder = virtualKeys.authenticate(ours, app.clock.nowMs())
            return holder instanceof Promise ? holder.then(claimed) : claimed(holder)
          }
          const principal = authenticate(req, ours)
          return principal instanceof Promise ? principal.then(callerOf) : callerOf(principal)
        },
        findProxy({ principal }, name) {
          const pending = records.space() ?? interactions.space() ?? requireSoundLog(principal.tenant)
          if (pending === undefined) return proxies.find(principal, name)
          return pending.then(() => requireSoundLog(principal.tenant)).then(() => proxies.find(principal, name))
        },
        finished(request) {
          records.add(request)
          const bodies = { request: request.requestBody, answer: request.answerBody }
          if (isOfModel(request))
            interactions.add(toInteraction(request, savedBy(request, { prices, upstreams })), bodies)
        },
        keepsBodies: interactions.keepsBodies,
        judging: createJudging({
          tools: openToolJudge({
            guardrails,
            views: app.views,
            database,
            clock: app.clock,
            serverNames: mcp_server_names,
          }),
          random,
        }),
        spending: {
          limits: usageLimits,
          ...{ prices, answering: answered.createAnsweringModels() },
          defaultOutputTokens: config.limits.default_output_tokens,
        },
        routedModels: providersOf(config).flatMap(({ name, models }) => models.map(({ model }) => `${name}:${model}`)),
        isOurs,
        sendError,
        addressOf,
        keyGuard: createKeyGuard({
          clock: app.clock,
          note(address) {
            logger.warn('many wrong keys at the model proxy', { address })
            const attempt = { atMs: app.clock.nowMs(), email: '', address, outcome: 'slowed', userId: null } as const
            void database
              .write(LOCAL_TENANT, (tx) => sqlPeopleStore.insertAttempt(tx, { ...attempt, tenant: LOCAL_TENANT }))
              .catch((error: unknown) => logger.error('wrong keys could not be recorded', { cause: String(error) }))
          },
        }),
        ...modelChoices,
        allowsCallerKeys: caller_keys,
        rules,
        minuteOfDay: minuteOfDayIn(config.limits.time_zone),
        answerTimeoutMs: answer_timeout_secs * 1_000,
        idleTimeoutMs: idle_timeout_secs * 1_000,
        inFlight: app.inFlight,
        clock: app.clock,
        random,
        logger,
      })
      close = proxy.close
      return proxy
    },
  }
}

/** Lists of models and token counts are not requests to a model. */
const isOfModel = ({ operation }: FinishedRequest): boolean => operation !== 'models' && operation !== 'count_tokens'

const methods: Readonly<Record<Principal['kind'], AuthMethod>> = {
  owner: 'local_owner',
  key: 'api_key',
  user: 'oauth',
  agent: 'api_key',
}
const isVirtualKey = (credential: string): boolean => credential.startsWith('cvk_')
/** One object for each lookup of a key. */
const virtualCallers = new WeakMap<VirtualKeyHolder, Caller>()
function virtualCallerOf(holder: VirtualKeyHolder): Caller {
  const known = virtualCallers.get(holder) ?? { ...holder, method: 'virtual_key' }
  virtualCallers.set(holder, known)
  return known
}
/** One object for each principal. */
const callers = new WeakMap<Principal, Caller>()
function callerOf(principal: Principal): Caller {
  const known = callers.get(principal) ?? { principal, method: methods[principal.kind] }
  callers.set(principal, known)
  return known
}
