// Script of a live page: takes what changed each second, and shows the report in the end.
{
  const main = document.getElementById("main"), source = new EventSource(`events?since=${main.dataset.seen}`);
  const on = (name, act) => source.addEventListener(name, ({ data }) => act(JSON.parse(data)));
  on("hello", (next) => {
    main.innerHTML = next.main;
    crawlmark.begin(next.data);
  });
  on("second", (next) => {
    document.getElementById("outcome").outerHTML = next.hero;
    crawlmark.add(next);
  });
  on("finding", crawlmark.find);
  on("end", () => {
    source.close();
    location.replace("report");
  });
  document.addEventListener("visibilitychange", crawlmark.draw);
}
