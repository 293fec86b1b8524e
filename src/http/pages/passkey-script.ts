/**
 * The one script of our pages: asks the browser for a passkey, which no form can do. It serves the form with `data-passkey`,
 * which stays hidden unless the browser supports passkeys.
 */
export const PASSKEY_SCRIPT = `
const form = document.querySelector('form[data-passkey]')
if (form && window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  form.hidden = false
  const problem = form.querySelector('[role=alert]')
  const ask = async (path, body) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    const answer = await response.json()
    if (!response.ok) throw new Error(answer.error.message)
    return answer
  }
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    problem.hidden = true
    try {
      const path = new URL(form.action).pathname
      const fields = Object.fromEntries(new FormData(form))
      const isNew = form.dataset.passkey === 'register'
      const options = await ask(path + '/options', {})
      const credential = isNew
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) })
      const { location } = await ask(path, { ...fields, response: credential.toJSON() })
      window.location.assign(location)
    } catch (error) {
      problem.textContent = error.message
      problem.hidden = false
    }
  })
}
`
