// The page that the server serves: questions go to it as JSON, with the key from the fragment of the address.
import { wrong } from "./questions.js";
import { render } from "./studio.js";

const KEPT = "anyreward-studio-key";
const fragment = new URLSearchParams(location.hash.slice(1));
const key = fragment.get("key") ?? kept() ?? "";

// The key is kept for other tabs and for links, which do not carry it; a browser may forbid that.
function kept(text) {
  try {
    return text === undefined ? localStorage.getItem(KEPT) : localStorage.setItem(KEPT, text);
  } catch {
    return null;
  }
}

if (fragment.has("key")) {
  kept(key);
  fragment.delete("key");
  history.replaceState(null, "", fragment.size ? `#${fragment}` : location.pathname);
}

async function ask(name, asked) {
  const headers = { "Content-Type": "application/json", "X-Anyreward-Token": key };
  let response;
  try {
    response = await fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(asked), cache: "no-store" });
  } catch {
    throw new Error("The studio does not answer: it was ended, or the connection was lost. Start it again.");
  }
  const answer = await response.json().catch(() => ({ error: "The studio is too busy to answer: try again in a moment." }));
  if (answer.error) throw wrong(answer);
  return answer;
}

const address = {
  get: () => new URLSearchParams(location.hash.slice(1)).get("reward"),
  set: (text) => history.replaceState(null, "", text ? `#reward=${text}` : location.pathname),
  link: () => location.href,
};
render({ model: { ask, address }, el: document.body });
